import Cryptography
package struct ClassKey: ~Copyable { package let generation: UInt32; package var secret: SecretBytes
 consuming func takeSecret() -> SecretBytes { secret } }
package final class VolumeKeys: Sendable {
    package let names: NameCipher; package let symbolicLinks: NameCipher; package let attributeNames: NameCipher; package let directoryAttributes: NameCipher
    package let records: RecordAuthenticator; package let attributeNameHash: RecordAuthenticator
    init(_ n: NameCipher, _ r: RecordAuthenticator) { names = n; symbolicLinks = n; attributeNames = n; directoryAttributes = n; records = r; attributeNameHash = r}
}

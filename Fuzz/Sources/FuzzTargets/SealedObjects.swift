@testable import TPM

func fuzzSealedObject(_ bytes: [UInt8]) {
  let object: SealedObject
  do throws(TPMError) {
    object = try SealedObject(bytes)
  } catch {
    precondition(error == .malformed, "nothing but the form is at fault")
    return
  }
  precondition(object.bytes == bytes, "an object has one form")
  precondition((51...SealedObject.maximumCount).contains(bytes.count))
  precondition(bytes[8] == (object.isProtected ? 0 : 4))
  must("the structures of an object") { () throws(TPMError) in
    let (publicArea, privateArea) = try object.structures()
    let made = try SealedObject.bytes(publicArea: publicArea, privateArea: privateArea)
    precondition(made == bytes)
    precondition(!PublicArea.isStorageKey(publicArea))
  }
}

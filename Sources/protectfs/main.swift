print("protectfs")

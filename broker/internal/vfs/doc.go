// Package vfs is the file-system port of the storage layer.
//
// Everything durable goes through FS, so that the same code runs on a disk (OS), in
// memory with a power failure at any moment (Memory.CrashClone), and on a disk that
// fails (Faulty). The conformance suite in vfstest holds all of them to one
// contract.
//
// The contract on durability, which is the weakest that real file systems give:
//   - written data is durable after Sync on that file, never before;
//   - a created, renamed or removed name is durable after SyncDir on its directory;
//   - a failed Sync leaves unknown what is on disk: callers must stop using the file
//     and never Sync it again as if nothing had happened.
//
// Names use '/' and are clean.
//
// Files:
//
//	vfs.go          FS, File, WriteFile, ReadFile, errors
//	os.go           OS: the real file system
//	os_linux.go     fdatasync, statfs, flock
//	os_other.go     the same for platforms without them
//	memory.go       Memory: files in memory
//	crash.go        CrashClone: what a power failure leaves
//	faulty.go       Faulty: errors on demand
package vfs

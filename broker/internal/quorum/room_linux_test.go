package quorum

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// holes are the bytes of the store's files that have no block on the disk.
func holes(t *testing.T, dir string) (holes int64) {
	t.Helper()
	files := must(filepath.Glob(filepath.Join(dir, "*.mem")))(t)
	if len(files) == 0 {
		t.Fatal("badger has no such file any more: which does it write by way of memory?")
	}
	for _, file := range files {
		info := must(os.Stat(file))(t)
		holes += max(0, info.Size()-512*info.Sys().(*syscall.Stat_t).Blocks)
	}
	return holes
}

// A store into a hole of a full disk would end the process.
func TestTheMetadataLogHasItsRoomOnTheDisk(t *testing.T) {
	dir := t.TempDir()
	s := must(openStore(dir, quiet()))(t)
	defer s.close()
	if n := holes(t, dir); n > 0 {
		t.Fatalf("%d bytes are without a block", n)
	}
	// Badger goes on in a new file in between.
	entry := bytes.Repeat([]byte("x"), 512<<10)
	for index := uint64(1); index <= 80; index++ {
		if err := s.StoreLog(&raft.Log{Index: index, Term: 1, Data: entry}); err != nil {
			t.Fatal(err)
		}
	}
	if files := must(filepath.Glob(filepath.Join(dir, "0000[2-9].mem")))(t); len(files) == 0 {
		t.Fatal("badger did not begin a new file, so this shows nothing")
	}
	if n := holes(t, dir); n > 0 {
		t.Fatalf("%d bytes of new files are without a block", n)
	}
}

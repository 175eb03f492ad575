package setups

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// OwnerFile is the file in a run's directory with its owner's mark: what tells
// all that the run makes outside its directory from what another run makes that
// has the same id in another runs directory.
const OwnerFile = "owner"

// safeOwner is what Own writes. Names of devices, of at most 15 bytes, hold it.
var safeOwner = regexp.MustCompile(`^[0-9a-f]{8}$`)

// Own gives the run in dir its mark, which is on the disk before anything can be
// made with it. A run that has one keeps it.
func Own(dir string) (string, error) {
	owner, err := Owner(dir)
	if owner != "" || err != nil {
		return owner, err
	}
	var mark [4]byte
	if _, err := rand.Read(mark[:]); err != nil {
		return "", fmt.Errorf("make the owner's mark of a run: %w", err)
	}
	owner = hex.EncodeToString(mark[:])
	path := filepath.Join(dir, OwnerFile)
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(path+".new", []byte(owner+"\n"), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return "", fmt.Errorf("note the owner's mark of a run: %w", err)
	}
	return owner, nil
}

// Owner reads the mark of the run in dir. "" is a run that has made nothing yet; one
// that has, and whose mark cannot be read, is an error.
func Owner(dir string) (string, error) {
	path := filepath.Join(dir, OwnerFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "brokers")); err != nil {
			return "", nil
		}
		return "", fmt.Errorf("%s is gone, which tells what the run made from what others did: remove that by hand, and then %s", path, dir)
	}
	if err != nil {
		return "", fmt.Errorf("read the owner's mark of a run: %w", err)
	}
	owner := string(data[:max(0, len(data)-1)])
	if !safeOwner.MatchString(owner) {
		return "", fmt.Errorf("%s holds %q, expected 8 hexadecimal digits as a runner wrote them: nothing is removed by it", path, data)
	}
	return owner, nil
}

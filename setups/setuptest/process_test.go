package setuptest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/process"
	"github.com/ister-mq/ister/setups/setuptest"
)

// options of a run in a directory of the test. ISTER_BIN names a binary that was
// built before.
func options(t *testing.T) setups.Options {
	dir := t.TempDir()
	return setups.Options{Dir: filepath.Join(dir, "run"), CacheDir: filepath.Join(dir, "cache"), Binary: os.Getenv("ISTER_BIN")}
}

func TestProcess(t *testing.T) {
	setuptest.Run(t, setuptest.Config{Setup: process.Setup{}, Options: options(t)})
}

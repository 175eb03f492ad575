package setuptest_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/process"
	"github.com/ister-mq/ister/setups/setuptest"
)

// binary is what every test runs: ISTER_BIN names one that was built before.
var binary = os.Getenv("ISTER_BIN")

// TestMain builds the binary once for all tests.
func TestMain(m *testing.M) {
	// Under nohup a hang-up is ignored, and by every child as well; noticed, it is not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(func() int {
		if binary != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "setuptest")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "ister")
		build := exec.Command("go", "build", "-o", binary, "github.com/ister-mq/ister/cmd/ister")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build ister: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// options of a run in a directory of the test.
func options(t *testing.T) setups.Options {
	dir := t.TempDir()
	return setups.Options{Dir: filepath.Join(dir, "run"), CacheDir: filepath.Join(dir, "cache"), Binary: binary}
}

func TestProcess(t *testing.T) {
	setuptest.Run(t, setuptest.Config{Setup: process.Setup{}, Options: options(t), Upgrades: true})
}

// Package build finds a binary of the broker, or builds one from the source tree
// that the working directory is in, with a version of its own when asked.
//
// It never fetches anything but what the Go command needs to build.
package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ister-mq/ister/setups"
)

const (
	modulePath = "github.com/ister-mq/ister"
	// otherVersion is what the build to upgrade to says of itself, where the same
	// source makes both.
	otherVersion = "devel+upgrade"
	// askTimeout bounds the question to a binary for its version.
	askTimeout = 10 * time.Second
)

// Target is where binaries are kept and what they have to run on.
type Target struct {
	Setup    string // its name, for refusals
	CacheDir string
	// OS and Arch as Go names them; "" is this machine's.
	OS, Arch string
	// Usable says why a file cannot be run there; nil when it can.
	Usable func(path string) error
	Say    func(string)
	// Dir is the run's own directory, in which a build does its work.
	Dir string
	// Ledger is the run's.
	Ledger Ledger
}

// Ledger starts processes that a run is known to have started.
type Ledger interface {
	Start(name string, cmd *exec.Cmd) error
	End(pid int) error
}

// workDir is the folder of a run's directory in which builds work. What a runner
// that was killed left there is removed by `scenario clean`, which knows the name.
const workDir = "build"

// cancelGrace is how long a build that is cancelled may take to clean up.
const cancelGrace = 5 * time.Second

// Find returns the binary to run and its SHA-256. An explicit path wins; then
// this very executable when it is ister and can be used; then one built from the
// source tree.
func (t Target) Find(ctx context.Context, explicit string) (path, digest string, err error) {
	self, unusable := t.self()
	switch {
	case explicit != "":
		path = explicit
	case self != "" && unusable == nil:
		path = self
	default:
		if path, err = t.compile(ctx, ""); err != nil {
			return "", "", errors.Join(unusable, err)
		}
	}
	return t.Accept(path)
}

// self is this very executable when it is ister, and why it cannot be used there.
func (t Target) self() (path string, unusable error) {
	path, err := os.Executable()
	if err != nil || filepath.Base(path) != "ister" {
		return "", nil
	}
	return path, t.Usable(path)
}

// Accept checks a binary, and returns its whole path and its SHA-256.
func (t Target) Accept(path string) (string, string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", "", fmt.Errorf("find the ister binary: %w", err)
	}
	if err := t.Usable(path); err != nil {
		return "", "", err
	}
	digest, err := Digest(path)
	return path, digest, err
}

// Two returns the present build, whose path is given, and the one to upgrade to:
// the explicit one, or else the same source built with another version. Builds
// that a broker's own report could not tell apart are refused.
func (t Target) Two(ctx context.Context, present, explicit string) (now, next setups.Build, err error) {
	if now, err = t.describe(ctx, present); err != nil {
		return now, next, err
	}
	if explicit == "" {
		if _, rootErr := sourceRoot(); rootErr != nil {
			return now, next, &setups.Refused{Setup: t.Setup, What: "build another version to upgrade to", Why: "there is only the binary " + now.Path + " and no source tree of Ister above the working directory",
				Remedy: "give another build of ister with --upgrade-bin FILE"}
		}
		if explicit, err = t.compile(ctx, otherVersion); err != nil {
			return now, next, err
		}
	}
	if next, err = t.describe(ctx, explicit); err != nil {
		return now, next, err
	}
	if now.SHA256 == next.SHA256 || now.Version == next.Version && now.Version != "" {
		return now, next, &setups.Refused{Setup: t.Setup, What: "tell the two builds apart", Why: fmt.Sprintf("%s and %s both say version %s", now.Path, next.Path, now.Version),
			Remedy: "give a build of another version with --upgrade-bin FILE (go build -ldflags '-X main.version=NAME' ./cmd/ister)"}
	}
	return now, next, nil
}

// describe reads what a binary is. Its version stays unknown where it cannot be
// run on this machine, as a linux one for containers on a Mac.
func (t Target) describe(ctx context.Context, path string) (setups.Build, error) {
	path, digest, err := t.Accept(path)
	if err != nil {
		return setups.Build{}, err
	}
	b := setups.Build{Path: path, SHA256: digest}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, path, "version").Output(); err == nil {
		if words := strings.Fields(string(out)); len(words) >= 2 && words[0] == "ister" {
			b.Version = words[1]
		}
	}
	return b, nil
}

// Check is the finding of doctor about the binary.
func (t Target) Check() setups.Finding {
	f := setups.Finding{Code: "BROKER_BINARY", OK: true}
	self, unusable := t.self()
	if self != "" && unusable == nil {
		f.Message = "this executable: " + self
		return f
	}
	root, err := sourceRoot()
	if err != nil {
		f.Message = "there is no ister binary that runs there"
		if unusable != nil {
			f.Message = unusable.Error()
		}
		return setups.Finding{Code: "BROKER_BINARY", Fatal: true, Message: f.Message,
			Remedy: "run `ister scenario`, give --ister-bin FILE, or run this inside Ister's source tree"}
	}
	f.Message = "built from " + root + " when needed"
	if _, err := exec.LookPath("go"); err != nil {
		f.OK, f.Fatal, f.Message, f.Remedy = false, true, "the go command is not installed", "install Go, or give --ister-bin FILE"
	}
	return f
}

// sourceRoot finds the module's source tree above the working directory.
func sourceRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+modulePath+"\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no ister binary: run `ister scenario`, give --ister-bin FILE, or run this inside Ister's source tree")
		}
		dir = parent
	}
}

// compile builds ./cmd/ister into the cache, with a version of its own unless it
// is "". The file is named by its content, so that a later build never changes
// what a run is using.
func (t Target) compile(ctx context.Context, version string) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(t.CacheDir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	work := filepath.Join(t.Dir, workDir)
	if err := os.MkdirAll(work, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of the build: %w", err)
	}
	defer os.RemoveAll(work)
	if work, err = filepath.Abs(work); err != nil {
		return "", fmt.Errorf("folder of the build: %w", err)
	}
	fresh := filepath.Join(work, "ister")
	// The source's revision is left out: asking git for it fails where the tree
	// belongs to another user. The binary's checksum says what ran.
	args := []string{"build", "-buildvcs=false", "-o", fresh}
	label := "./cmd/ister"
	if version != "" {
		args = append(args, "-ldflags", "-X main.version="+version)
		label += " as version " + version
	}
	t.Say("building " + label + " (the first build takes a while)")
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/ister")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOTMPDIR="+work)
	if t.OS != "" {
		cmd.Env = append(cmd.Env, "GOOS="+t.OS, "GOARCH="+t.Arch)
	}
	if out, err := Run(t.Ledger, "build", cmd); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", fmt.Errorf("go build ./cmd/ister in %s: %w\n%s", root, err, strings.TrimSpace(string(out)))
	}
	digest, err := Digest(fresh)
	if err != nil {
		return "", err
	}
	path := filepath.Join(t.CacheDir, "ister-"+digest[:12])
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("keep the binary: %w", err)
	}
	t.Say(fmt.Sprintf("built in %.1fs", time.Since(start).Seconds()))
	return path, nil
}

// Run does a command as a process of the ledger's run, and returns its output.
// Where its context ends, the whole group is asked to end, since compilers are its
// children.
func Run(ledger Ledger, name string, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = cancelGrace
	if err := ledger.Start(name, cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	return out.Bytes(), errors.Join(err, ledger.End(cmd.Process.Pid))
}

// Executable wants a file that this machine can run.
func Executable(path string) error {
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file: give the ister binary with --ister-bin or --upgrade-bin", path)
	}
	return nil
}

// Digest is the SHA-256 of a file in hexadecimal.
func Digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the binary: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("read the binary: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

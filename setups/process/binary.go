package process

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
	"time"
)

const modulePath = "github.com/ister-mq/ister"

// findBinary returns the ister binary to run and its SHA-256. An explicit path
// wins; then this very executable when it is ister; then one built from the
// source tree that the working directory is in.
func findBinary(ctx context.Context, explicit, cacheDir string, say func(string)) (path, digest string, err error) {
	switch self, selfErr := os.Executable(); {
	case explicit != "":
		path = explicit
	case selfErr == nil && filepath.Base(self) == "ister":
		path = self
	default:
		if path, err = build(ctx, cacheDir, say); err != nil {
			return "", "", err
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "", fmt.Errorf("find the ister binary: %w", err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", "", fmt.Errorf("%s is not an executable file: give the ister binary with --ister-bin", path)
	}
	digest, err = fileDigest(path)
	return path, digest, err
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

// build compiles ./cmd/ister into the cache. The file is named by its content,
// so that a later build never changes what a run is using.
func build(ctx context.Context, cacheDir string, say func(string)) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	fresh := filepath.Join(cacheDir, fmt.Sprintf("building-%d", os.Getpid()))
	defer os.Remove(fresh)
	say("building ./cmd/ister (the first build takes a while)")
	start := time.Now()
	// The source's revision is left out: asking git for it fails where the tree
	// belongs to another user. The binary's checksum says what ran.
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", fresh, "./cmd/ister")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("go build ./cmd/ister in %s: %w\n%s", root, err, strings.TrimSpace(string(out)))
	}
	digest, err := fileDigest(fresh)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cacheDir, "ister-"+digest[:12])
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("keep the binary: %w", err)
	}
	say(fmt.Sprintf("built in %.1fs", time.Since(start).Seconds()))
	return path, nil
}

func fileDigest(path string) (string, error) {
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

package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ister-mq/ister/setups"
)

const modulePath = "github.com/ister-mq/ister"

// FindBinary returns a static ister binary for linux on the architecture, and
// its SHA-256. An explicit path wins; then this very executable when it is such
// a one; then one built from the source tree that the working directory is in.
func FindBinary(ctx context.Context, options setups.Options, arch string) (path, digest string, err error) {
	self, selfErr := os.Executable()
	switch {
	case options.Binary != "":
		path = options.Binary
	case selfErr == nil && filepath.Base(self) == "ister" && checkStatic(self, arch) == nil:
		path = self
	default:
		if path, err = build(ctx, options.CacheDir, arch, options.Say); err != nil {
			return "", "", err
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", "", fmt.Errorf("find the ister binary: %w", err)
	}
	if err := checkStatic(path, arch); err != nil {
		return "", "", err
	}
	digest, err = fileDigest(path)
	return path, digest, err
}

var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386,
	"ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "riscv64": elf.EM_RISCV, "loong64": elf.EM_LOONGARCH}

// checkStatic wants a file that runs in an image that holds nothing else.
func checkStatic(path, arch string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is not a linux executable (%w): build one with `GOOS=linux CGO_ENABLED=0 go build ./cmd/ister`", path, err)
	}
	defer file.Close()
	if want, known := machines[arch]; known && file.Machine != want {
		return fmt.Errorf("%s is for %s, the docker engine runs %s: build it with GOARCH=%s", path, file.Machine, arch, arch)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked to shared libraries, which the image does not have: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
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
func build(ctx context.Context, cacheDir, arch string, say func(string)) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache: %w", err)
	}
	fresh := filepath.Join(cacheDir, fmt.Sprintf("building-linux-%d", os.Getpid()))
	defer os.Remove(fresh)
	say("building ./cmd/ister for linux/" + arch)
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", fresh, "./cmd/ister")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
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
	path := filepath.Join(cacheDir, "ister-linux-"+digest[:12])
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

func checkBinary(arch string) setups.Finding {
	f := setups.Finding{Code: "BROKER_BINARY", OK: true}
	if self, err := os.Executable(); err == nil && filepath.Base(self) == "ister" && (arch == "" || checkStatic(self, arch) == nil) {
		f.Message = "this executable: " + self
		return f
	}
	root, err := sourceRoot()
	if err == nil {
		_, err = exec.LookPath("go")
	}
	if err != nil {
		return setups.Finding{Code: "BROKER_BINARY", Fatal: true, Message: "there is no static linux binary of ister",
			Remedy: "run `ister scenario` on linux, give --ister-bin FILE, or install Go and run this inside Ister's source tree"}
	}
	f.Message = "built from " + root + " when needed"
	return f
}

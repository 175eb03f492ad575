package docker

import (
	"debug/elf"
	"fmt"

	"github.com/ister-mq/ister/setups"
	"github.com/ister-mq/ister/setups/internal/build"
	"github.com/ister-mq/ister/setups/process"
)

// Binaries is what a binary has to be to run on the engine of a setup: static,
// for linux, and for its architecture.
func Binaries(setup string, options setups.Options, arch string) build.Target {
	return build.Target{
		Setup: setup, CacheDir: options.CacheDir, OS: "linux", Arch: arch, Say: options.Say, Dir: options.Dir, Ledger: process.NewLedger(options.Dir),
		Usable: func(path string) error { return checkStatic(path, arch) },
	}
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

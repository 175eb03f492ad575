package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	testcontainers "github.com/testcontainers/testcontainers-go"
)

// imageRepository is the name of the images, which are never pushed anywhere.
const imageRepository = "ister-scenario"

// dockerfile of an image that holds the binary and nothing else. A data
// directory is made by the volume that is mounted there.
// The labels come first: an untagged layer that a killed build leaves has them too.
const dockerfile = `FROM scratch
LABEL %s=%q %s=%q
COPY ister /ister
ENTRYPOINT ["/ister"]
`

// ImageName is the image of a binary.
func ImageName(digest string) string { return imageRepository + ":" + digest[:12] }

// imagesFile is the file in a run's directory that lists the images it used.
const imagesFile = "images"

// EnsureImage builds the image of a binary unless the engine has it, and notes
// in the run's directory that the run uses it. It needs no registry. A second run
// may remove it at any time before a container uses it.
func (e *Engine) EnsureImage(ctx context.Context, run Run, binary, digest string) (string, error) {
	name := ImageName(digest)
	if err := noteImage(run.Dir, name); err != nil {
		return "", err
	}
	_, err := e.API.ImageInspect(ctx, name)
	if err == nil {
		return name, nil
	}
	if !errdefs.IsNotFound(err) {
		return "", fmt.Errorf("look for image %s: %w", name, err)
	}
	archive, err := buildContext(run, binary)
	if err != nil {
		return "", err
	}
	var output bytes.Buffer
	request := &testcontainers.ContainerRequest{FromDockerfile: testcontainers.FromDockerfile{
		ContextArchive: bytes.NewReader(archive), Repo: imageRepository, Tag: digest[:12],
		KeepImage: true, BuildLogWriter: &output,
		BuildOptionsModifier: func(o *client.ImageBuildOptions) { o.NetworkMode = "none" },
	}}
	if _, err := e.Provider.BuildImage(ctx, request); err != nil {
		return "", fmt.Errorf("build image %s: %w\n%s", name, err, output.Bytes())
	}
	return name, nil
}

// noting is held while a list of images is changed: brokers start together.
var noting sync.Mutex

// noteImage adds an image to the run's list, which outlives the runner: after an
// upgrade no container tells of the image before it.
func noteImage(dir, name string) error {
	noting.Lock()
	defer noting.Unlock()
	names, err := notedImages(dir)
	if err != nil || slices.Contains(names, name) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the run's directory: %w", err)
	}
	path := filepath.Join(dir, imagesFile)
	err = os.WriteFile(path+".new", []byte(strings.Join(append(names, name), "\n")+"\n"), 0o644)
	if err == nil { // in one step: a runner that is killed meanwhile leaves the whole list
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("note the image: %w", err)
	}
	return nil
}

func notedImages(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, imagesFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the list of images: %w", err)
	}
	return strings.Fields(string(data)), nil
}

// buildContext is a tar with the Dockerfile and the binary.
func buildContext(run Run, binary string) ([]byte, error) {
	file, err := os.Open(binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	dockerfile := fmt.Sprintf(dockerfile, RunLabel, run.ID, OwnerLabel, run.Owner)
	var out bytes.Buffer
	out.Grow(int(info.Size()) + 4096)
	w := tar.NewWriter(&out)
	err = w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(dockerfile))})
	if err == nil {
		_, err = io.WriteString(w, dockerfile)
	}
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "ister", Mode: 0o755, Size: info.Size()})
	}
	if err == nil {
		_, err = io.Copy(w, file)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack the binary: %w", err)
	}
	return out.Bytes(), nil
}

// RemoveImage removes the image unless a container uses it, which is not an
// error: the last run that does removes it.
func (e *Engine) RemoveImage(ctx context.Context, name string) error {
	_, err := e.API.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("remove image %s: %w", name, err)
	}
	return nil
}

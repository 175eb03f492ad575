package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/moby/moby/client"
)

// Files that fill a broker's disk, beside its data.
const (
	fillFile    = "fill.ister"    // takes what there is
	reserveFile = "reserve.ister" // keeps free what shall stay free
	probeFile   = "probe.ister"   // shows that nothing is free
)

// Fill takes the room on the file system of a directory in the container, all
// but so many bytes. The size of the file system bounds what is written. The
// container need not run.
func (b *Box) Fill(ctx context.Context, dir string, sizeBytes, leaveBytes int64) error {
	if err := b.put(ctx, dir, reserveFile, leaveBytes); err != nil {
		return fmt.Errorf("keep %d bytes free for %s: %w", leaveBytes, b.name, err)
	}
	if err := b.put(ctx, dir, fillFile, sizeBytes); err != nil && !isFull(err) {
		return fmt.Errorf("fill the disk of %s: %w", b.name, err)
	}
	if err := b.put(ctx, dir, probeFile, 4096); !isFull(err) {
		return fmt.Errorf("the disk of %s is not full after %d bytes were written (%v)", b.name, sizeBytes, err)
	}
	return b.put(ctx, dir, reserveFile, 0)
}

// Free takes back what Fill wrote.
func (b *Box) Free(ctx context.Context, dir string) error {
	var errs []error
	for _, name := range []string{fillFile, reserveFile, probeFile} {
		if err := b.put(ctx, dir, name, 0); err != nil {
			errs = append(errs, fmt.Errorf("free the disk of %s: %w", b.name, err))
		}
	}
	return errors.Join(errs...)
}

// put replaces a file in the container by one of zeros.
func (b *Box) put(ctx context.Context, dir, name string, size int64) error {
	reader, writer := io.Pipe()
	go func() {
		w := tar.NewWriter(writer)
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size})
		if err == nil {
			_, err = io.CopyN(w, zeros{}, size)
		}
		if err == nil {
			err = w.Close()
		}
		writer.CloseWithError(err)
	}()
	defer reader.Close()
	_, err := b.engine.API.CopyToContainer(ctx, b.id, client.CopyToContainerOptions{DestinationPath: dir, Content: reader})
	return err
}

func isFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no space left on device")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

package history

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// journalEvery is how often a journal is brought up to date: what the recorder
// learned later is lost when its process is killed.
const journalEvery = 200 * time.Millisecond

// Journal writes a recorder's history to a file while it grows, so that a runner
// that is killed leaves what its clients saw. One goroutine writes.
//
// The file is a history file of format 2: a send, or a disturbance, may come a
// second time with what became of it, and the file may end anywhere.
type Journal struct {
	path     string
	recorder *Recorder
	file     *os.File
	packed   *gzip.Writer
	encoder  *json.Encoder
	from     extent // what is written

	stop func()
	done chan struct{} // closed when the goroutine has ended
	err  error         // the first fault, after done
}

// extent counts the parts of a history.
type extent struct{ sends, receives, acks, disturbances, reads int }

// Journal begins to write the history to path.
func (r *Recorder) Journal(path string) (*Journal, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("begin the history: %w", err)
	}
	packed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("begin the history: %w", err)
	}
	stop := make(chan struct{})
	j := &Journal{path: path, recorder: r, file: file, packed: packed, encoder: json.NewEncoder(packed), stop: sync.OnceFunc(func() { close(stop) }), done: make(chan struct{})}
	r.mu.Lock()
	r.journaled = true
	r.mu.Unlock()
	if err := errors.Join(j.encoder.Encode(line{Format: FormatJournal}), packed.Flush()); err != nil {
		file.Close()
		return nil, fmt.Errorf("begin the history: %w", err)
	}
	go j.run(stop)
	return j, nil
}

func (j *Journal) run(stop <-chan struct{}) {
	defer close(j.done)
	ticker := time.NewTicker(journalEvery)
	defer ticker.Stop()
	for j.err == nil {
		select {
		case <-stop:
			j.err = j.write()
			return
		case <-ticker.C:
			j.err = j.write()
		}
	}
}

// write appends what is new. Sends come before the receives and reads that show
// them, so that a file which is cut anywhere shows no record that nobody sent.
func (j *Journal) write() error {
	news, first, ended := j.recorder.since(j.from)
	var err error
	put := func(l line) {
		if err == nil {
			err = j.encoder.Encode(l)
		}
	}
	for i := range ended.sends {
		put(line{Again: &ended.sends[i].at, Send: &ended.sends[i].Send})
	}
	for i := range ended.disturbances {
		put(line{Again: &ended.disturbances[i].at, Disturbance: &ended.disturbances[i].Disturbance})
	}
	news.lines(put)
	if err == nil {
		err = j.packed.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the history %s: %w", j.path, err)
	}
	j.from = first
	return nil
}

// Close writes what is new, and then the whole history in its place. The error is
// of either; the journal stays where the whole could not be written.
func (j *Journal) Close() error {
	j.stop()
	<-j.done
	err := errors.Join(j.err, j.packed.Close(), j.file.Close())
	whole := Save(j.path, j.recorder.Snapshot())
	if whole == nil {
		return nil // nothing of the journal's faults matters any more
	}
	return errors.Join(whole, err)
}

// replace writes a file beside its place and moves it there in one step.
func replace(path string, write func(*os.File) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	err = write(file)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// FormatVersion is the version of the history file; readers refuse newer ones.
const FormatVersion = 1

// lineBytesMax bounds one line of a history file. Reads are written record by
// record, so that a line is small whatever the topic holds.
const lineBytesMax = 1 << 20

// line is one entry of the file: exactly one member is set.
type line struct {
	Format      int          `json:"format,omitempty"`
	Send        *Send        `json:"send,omitempty"`
	Receive     *Receive     `json:"receive,omitempty"`
	Ack         *Ack         `json:"ack,omitempty"`
	Disturbance *Disturbance `json:"disturbance,omitempty"`
	Read        *Read        `json:"read,omitempty"`
	ReadRecord  *Receive     `json:"read_record,omitempty"` // of the Read line before it
}

// Save writes the history as gzipped lines of JSON.
func Save(path string, h *History) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("create history: %w", err)
	}
	err = Write(file, h)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write history %s: %w", path, err)
	}
	return nil
}

// Write writes the history to w.
func Write(w io.Writer, h *History) error {
	packed := gzip.NewWriter(w)
	encoder := json.NewEncoder(packed)
	lines := func(yield func(line) bool) {
		if !yield(line{Format: FormatVersion}) {
			return
		}
		for i := range h.Disturbances {
			if !yield(line{Disturbance: &h.Disturbances[i]}) {
				return
			}
		}
		for i := range h.Sends {
			if !yield(line{Send: &h.Sends[i]}) {
				return
			}
		}
		for i := range h.Receives {
			if !yield(line{Receive: &h.Receives[i]}) {
				return
			}
		}
		for i := range h.Acks {
			if !yield(line{Ack: &h.Acks[i]}) {
				return
			}
		}
		for i := range h.Reads {
			head := h.Reads[i]
			head.Records = nil
			if !yield(line{Read: &head}) {
				return
			}
			for j := range h.Reads[i].Records {
				if !yield(line{ReadRecord: &h.Reads[i].Records[j]}) {
					return
				}
			}
		}
	}
	for l := range lines {
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	return packed.Close()
}

// Load reads a history file.
func Load(path string) (*History, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	defer file.Close()
	h, err := Decode(file)
	if err != nil {
		return nil, fmt.Errorf("read history %s: %w", path, err)
	}
	return h, nil
}

// Decode reads a history from r. A file that ends in the middle of a line, as
// after a crash of the runner, is an error that says so.
func Decode(r io.Reader) (*History, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a gzip file: %w", err)
	}
	scanner := bufio.NewScanner(unpacked)
	scanner.Buffer(make([]byte, 64<<10), lineBytesMax)
	h, n := &History{}, 0
	for scanner.Scan() {
		n++
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			if !scanner.Scan() && scanner.Err() != nil {
				return nil, fmt.Errorf("the file is cut off in line %d: %w", n, scanner.Err())
			}
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if n == 1 {
			if l.Format == 0 || l.Format > FormatVersion {
				return nil, fmt.Errorf("history format %d: this build reads format %d", l.Format, FormatVersion)
			}
			continue
		}
		if err := h.add(l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("after line %d: %w", n, err)
	}
	if n == 0 {
		return nil, errors.New("the file is empty")
	}
	return h, nil
}

func (h *History) add(l line) error {
	switch {
	case l.Send != nil:
		h.Sends = append(h.Sends, *l.Send)
	case l.Receive != nil:
		h.Receives = append(h.Receives, *l.Receive)
	case l.Ack != nil:
		h.Acks = append(h.Acks, *l.Ack)
	case l.Disturbance != nil:
		h.Disturbances = append(h.Disturbances, *l.Disturbance)
	case l.Read != nil:
		h.Reads = append(h.Reads, *l.Read)
	case l.ReadRecord != nil:
		if len(h.Reads) == 0 {
			return errors.New("a read record without its read")
		}
		last := &h.Reads[len(h.Reads)-1]
		last.Records = append(last.Records, *l.ReadRecord)
	default:
		return errors.New("an entry of an unknown kind")
	}
	return nil
}

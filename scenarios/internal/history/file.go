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

// The formats of history files; readers refuse newer ones.
const (
	FormatWhole   = 1 // everything once, and nothing is missing
	FormatJournal = 2 // as it was written while the run went on; see Journal
)

// lineBytesMax bounds one line of a history file. Reads are written record by
// record, so that a line is small whatever the topic holds.
const lineBytesMax = 1 << 20

// line is one entry of the file: exactly one of its pointers is set, beside Again.
type line struct {
	Format int `json:"format,omitempty"`
	// Again says which send or disturbance of the file, counted from 0, this one
	// takes the place of.
	Again *int `json:"again,omitempty"`
	// Records counts the records of the Read line, which follow it.
	Records     int          `json:"records,omitempty"`
	Send        *Send        `json:"send,omitempty"`
	Receive     *Receive     `json:"receive,omitempty"`
	Ack         *Ack         `json:"ack,omitempty"`
	Disturbance *Disturbance `json:"disturbance,omitempty"`
	Read        *Read        `json:"read,omitempty"`
	ReadRecord  *Receive     `json:"read_record,omitempty"` // of the Read line before it
}

// Save writes the history as gzipped lines of JSON, in one step: a file that was
// there stays until the new one is whole.
func Save(path string, h *History) error {
	if err := replace(path, func(file *os.File) error { return Write(file, h) }); err != nil {
		return fmt.Errorf("write history %s: %w", path, err)
	}
	return nil
}

// Write writes the history to w.
func Write(w io.Writer, h *History) error {
	packed := gzip.NewWriter(w)
	encoder := json.NewEncoder(packed)
	err := encoder.Encode(line{Format: FormatWhole})
	h.lines(func(l line) {
		if err == nil {
			err = encoder.Encode(l)
		}
	})
	if err != nil {
		return err
	}
	return packed.Close()
}

// lines gives the entries of a history, without the first, which has the format.
func (h *History) lines(put func(line)) {
	for i := range h.Disturbances {
		put(line{Disturbance: &h.Disturbances[i]})
	}
	for i := range h.Sends {
		put(line{Send: &h.Sends[i]})
	}
	for i := range h.Receives {
		put(line{Receive: &h.Receives[i]})
	}
	for i := range h.Acks {
		put(line{Ack: &h.Acks[i]})
	}
	for i := range h.Reads {
		head := h.Reads[i]
		head.Records = nil
		put(line{Read: &head, Records: len(h.Reads[i].Records)})
		for j := range h.Reads[i].Records {
			put(line{ReadRecord: &h.Reads[i].Records[j]})
		}
	}
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

// Decode reads a history from r. A whole history that ends too early is an error
// that says so; a journal is read as far as it goes and is Partial.
func Decode(r io.Reader) (*History, error) {
	unpacked, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a gzip file: %w", err)
	}
	scanner := bufio.NewScanner(unpacked)
	scanner.Buffer(make([]byte, 64<<10), lineBytesMax)
	h, n, missing := &History{}, 0, 0
	for scanner.Scan() {
		n++
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			if !scanner.Scan() && cutOff(scanner.Err()) {
				if h.Partial {
					break
				}
				return nil, fmt.Errorf("the file is cut off in line %d: %w", n, scanner.Err())
			}
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if n == 1 {
			if l.Format < FormatWhole || l.Format > FormatJournal {
				return nil, fmt.Errorf("history format %d: this build reads formats %d to %d", l.Format, FormatWhole, FormatJournal)
			}
			h.Partial = l.Format == FormatJournal
			continue
		}
		if err := h.add(l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		missing += l.Records
		if l.ReadRecord != nil {
			missing--
		}
	}
	if err := scanner.Err(); err != nil && !(h.Partial && cutOff(err)) {
		return nil, fmt.Errorf("after line %d: %w", n, err)
	}
	if n == 0 {
		return nil, errors.New("the file is empty")
	}
	if h.Partial && missing > 0 {
		h.Reads = h.Reads[:len(h.Reads)-1] // what is missing would count as lost
	}
	return h, nil
}

// cutOff: the file ended before its compressed stream did.
func cutOff(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }

func (h *History) add(l line) error {
	switch {
	case l.Again != nil:
		return h.again(*l.Again, l)
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

// again puts an entry in the place of an earlier one.
func (h *History) again(at int, l line) error {
	switch {
	case l.Send != nil && at >= 0 && at < len(h.Sends):
		h.Sends[at] = *l.Send
	case l.Disturbance != nil && at >= 0 && at < len(h.Disturbances):
		h.Disturbances[at] = *l.Disturbance
	default:
		return fmt.Errorf("it takes the place of entry %d, which there is not", at)
	}
	return nil
}

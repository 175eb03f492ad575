package history

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// journal writes what fill records, with a write between its parts, as a runner
// that was killed leaves it.
func journal(t *testing.T, parts ...func(*Recorder)) ([]byte, *Recorder) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "history.ndjson.gz")
	r := NewRecorder()
	j, err := r.Journal(path)
	if err != nil {
		t.Fatal(err)
	}
	j.stop()
	<-j.done // this test writes by itself
	for _, part := range parts {
		part(r)
		if err := j.write(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := Load(path)
	if want := r.Snapshot(); err != nil || !reflect.DeepEqual(whole, want) {
		t.Fatalf("the whole history is %+v, want %+v: %v", whole, want, err)
	}
	return data, r
}

func record(r *Recorder) {
	a := r.BeginSend(Send{Load: "l", UID: "a"})
	r.EndSend(a, OK, 0, 0, -1, 1, nil)
	r.BeginSend(Send{Load: "l", UID: "b"})
	r.BeginDisturbance("s", "k", "t")
}

func recordMore(r *Recorder) {
	r.EndSend(1, OK, 0, 1, -1, 1, nil)
	r.EndDisturbance(0)
	r.Receive(Receive{Load: "l", UID: "a"})
	r.BeginSend(Send{Load: "l", UID: "c"})
	r.Read(Read{ID: "r", Load: "l", Records: []Receive{{UID: "a"}, {UID: "b", Offset: 1}}})
}

func TestJournalOfAKilledRunnerHasAllThatWasWritten(t *testing.T) {
	data, r := journal(t, record, recordMore)
	h, err := Decode(bytes.NewReader(data))
	want := r.Snapshot()
	want.Partial = true
	if err != nil || !reflect.DeepEqual(h, want) {
		t.Fatalf("%+v\nwant %+v\n%v", h, want, err)
	}
}

// Method: every prefix of the file is read. None is an error once the first line
// is there, none shows a received record that was not sent, and no read is there
// in part.
func TestEveryPrefixOfAJournalIsAHistory(t *testing.T) {
	data, _ := journal(t, record, recordMore)
	reads := 0
	for n := 40; n <= len(data); n++ {
		h, err := Decode(bytes.NewReader(data[:n]))
		if err != nil {
			t.Fatalf("the first %d of %d bytes: %v", n, len(data), err)
		}
		sent := map[string]bool{}
		for _, s := range h.Sends {
			sent[s.UID] = true
		}
		for _, read := range h.Reads {
			reads++
			if len(read.Records) != 2 {
				t.Fatalf("the first %d bytes hold a read with %d of 2 records", n, len(read.Records))
			}
		}
		for _, rec := range h.Receives {
			if !sent[rec.UID] {
				t.Fatalf("the first %d bytes hold a record that nobody sent: %+v", n, h)
			}
		}
		if !h.Partial {
			t.Fatalf("the first %d bytes are not partial", n)
		}
	}
	if reads == 0 {
		t.Error("no prefix held the read")
	}
}

func TestASaveThatFailsKeepsWhatWasThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.ndjson.gz")
	if err := Save(path, sample()); err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	if err := replace(path, func(file *os.File) error {
		_, err := file.WriteString("half")
		return errors.Join(err, full)
	}); !errors.Is(err, full) {
		t.Fatalf("%v, want %v", err, full)
	}
	if back, err := Load(path); err != nil || !reflect.DeepEqual(back, sample()) {
		t.Errorf("%+v, %v", back, err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("left %v, %v", files, err)
	}
}

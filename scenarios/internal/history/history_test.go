package history

import (
	"bytes"
	"compress/gzip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func sample() *History {
	slot := Slot{"t", 2}
	return &History{
		Sends:        []Send{{Slot: slot, Load: "l", UID: "u", Outcome: OK, Offset: 4, Call: 1, Return: 2}, {Slot: slot, Load: "m", UID: "v", Outcome: Unknown, Error: "timeout"}},
		Receives:     []Receive{{Slot: slot, Load: "l", UID: "u", Offset: 4, ProducerID: 7}},
		Acks:         []Ack{{Slot: slot, Load: "l", Subscription: "s", Offset: 4, Nack: true}},
		Disturbances: []Disturbance{{Step: "move", Kind: "topic.move", Start: 1, End: 3}},
		Reads:        []Read{{ID: "r", Load: "l", Begin: 5, End: 6, Marks: []Mark{{slot, 0, 5}}, Records: []Receive{{Slot: slot, Load: "l", UID: "u", Offset: 4}}, Drained: true}},
	}
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.ndjson.gz")
	if err := Save(path, sample()); err != nil {
		t.Fatal(err)
	}
	back, err := Load(path)
	if err != nil || !reflect.DeepEqual(back, sample()) {
		t.Fatalf("%+v, %v", back, err)
	}
	if _, err := Load(path + ".none"); err == nil {
		t.Error("a missing file was read")
	}
}

func TestOfKeepsOneLoadAndAllDisturbances(t *testing.T) {
	own := sample().Of("m")
	if len(own.Sends) != 1 || len(own.Receives)+len(own.Acks)+len(own.Reads) != 0 || len(own.Disturbances) != 1 {
		t.Fatalf("%+v", own)
	}
}

func TestDecodeRefusesWhatIsNoWholeHistory(t *testing.T) {
	var whole bytes.Buffer
	if err := Write(&whole, sample()); err != nil {
		t.Fatal(err)
	}
	packed := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"not gzip":             {[]byte("hello"), "not a gzip file"},
		"cut off":              {whole.Bytes()[:whole.Len()-20], "the file is cut off in line"},
		"empty":                {packed(""), "the file is empty"},
		"newer":                {packed(`{"format":3}`), "history format 3: this build reads formats 1 to 2"},
		"no format":            {packed(`{"send":{}}`), "history format 0"},
		"not JSON":             {packed("{\"format\":1}\nhello\n"), "line 2"},
		"unknown entry":        {packed("{\"format\":1}\n{\"dance\":{}}\n"), "unknown kind"},
		"record without read":  {packed("{\"format\":1}\n{\"read_record\":{}}\n"), "a read record without its read"},
		"takes no place":       {packed("{\"format\":2}\n{\"again\":0,\"send\":{}}\n"), "it takes the place of entry 0, which there is not"},
		"line beyond all size": {packed("{\"format\":1}\n" + strings.Repeat("x", lineBytesMax+1)), "token too long"},
	} {
		if _, err := Decode(bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRecorder(t *testing.T) {
	r := NewRecorder()
	a := r.BeginSend(Send{Load: "l", UID: "a"})
	b := r.BeginSend(Send{Load: "l", UID: "b"})
	one, now := r.Acked("l", 1)
	if now != 0 {
		t.Fatalf("%d acknowledged", now)
	}
	if got := r.Snapshot().Sends[0]; got.Outcome != Pending || got.Offset != -1 || got.Return != 0 {
		t.Fatalf("pending send %+v", got)
	}
	r.EndSend(a, Unknown, -1, 9, -1, -1, nil)
	select {
	case <-one:
		t.Fatal("an unknown send counted as acknowledged")
	default:
	}
	r.EndSend(b, OK, 3, 9, -1, 2, nil)
	<-one
	h := r.Snapshot()
	if h.Sends[0].Offset != -1 || h.Sends[1].Offset != 9 || h.Sends[1].Partition != 3 || h.Sends[1].Return < h.Sends[1].Call {
		t.Fatalf("%+v", h.Sends)
	}
	d := r.BeginDisturbance("s", "k", "t")
	if r.Snapshot().Disturbances[0].End != 0 {
		t.Error("a disturbance ended by itself")
	}
	r.EndDisturbance(d)
	if got := r.Snapshot().Disturbances[0]; got.End < got.Start || got.End == 0 {
		t.Errorf("%+v", got)
	}
}

func TestProgressCountsAndNamesTheLongestWait(t *testing.T) {
	r := NewRecorder()
	if p := r.Progress(); p.Sent != 0 || p.GapNS != 0 {
		t.Errorf("at the start: %+v", p)
	}
	first := r.BeginSend(Send{Load: "l", UID: "1"})
	second := r.BeginSend(Send{Load: "l", UID: "2"})
	r.EndSend(second, OK, 0, 0, -1, 1, nil)
	r.Receive(Receive{Load: "l", UID: "2"})
	p := r.Progress()
	if p.Sent != 2 || p.Acked != 1 || p.Delivered != 1 || p.GapNS != p.At-r.Snapshot().Sends[0].Call {
		t.Errorf("with one that waits: %+v", p)
	}
	r.EndSend(first, Unknown, -1, -1, -1, -1, nil)
	if p := r.Progress(); p.Acked != 1 || p.GapNS != 0 || p.AckNS <= 0 {
		t.Errorf("when none waits: %+v", p)
	}
}

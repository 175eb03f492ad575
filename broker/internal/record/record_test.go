package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"testing"

	"github.com/klauspost/compress/snappy"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

var someRecs = []Rec{
	{Timestamp: 1000, Key: []byte("k"), Value: []byte("one"), Headers: []KV{{"h", []byte("v")}, {"n", nil}}},
	{Timestamp: 999, Value: []byte("two")},
	{Timestamp: 5000, Key: []byte{}, Value: nil},
}

func TestBuildDecodeRoundTrip(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := Build(BuildOptions{BaseOffset: 70, LeaderEpoch: 3, Codec: codec}, someRecs...)
		h, err := Check(b)
		if err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		if h.BaseOffset != 70 || h.LastOffset() != 72 || h.NextOffset() != 73 || h.LeaderEpoch != 3 || h.Records != 3 ||
			h.FirstTimestamp != 1000 || h.MaxTimestamp != 5000 || h.Codec() != codec || h.Idempotent() || h.Size() != len(b) {
			t.Errorf("codec %d: header %+v", codec, h)
		}
		got, err := Decode(b, 1<<20)
		if err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		for i := range got {
			want := someRecs[i]
			want.Offset = model.Offset(70 + i)
			if !reflect.DeepEqual(got[i], want) {
				t.Errorf("codec %d, record %d: %+v, want %+v", codec, i, got[i], want)
			}
		}
		if _, err := CheckProduce(b); err != nil {
			t.Errorf("codec %d: %v", codec, err)
		}
		if codec != None {
			if _, err := Decode(b, 8); !refusal.Is(err, refusal.CorruptBatch) {
				t.Errorf("codec %d unpacked beyond its bound: %v", codec, err)
			}
		}
	}
}

func TestStampLeavesChecksumValid(t *testing.T) {
	b := Build(BuildOptions{}, someRecs...)
	Stamp(b, math.MaxInt32+5, 77)
	h, err := Check(b)
	if err != nil || h.BaseOffset != math.MaxInt32+5 || h.LeaderEpoch != 77 {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestNextWalksBatches(t *testing.T) {
	one, two := Build(BuildOptions{}, someRecs[0]), Build(BuildOptions{BaseOffset: 1}, someRecs...)
	rest := append(append([]byte{}, one...), two...)
	var offsets []model.Offset
	for len(rest) > 0 {
		batch, after, h, err := Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		if len(batch) != h.Size() || cap(batch) != len(batch) {
			t.Fatalf("batch of %d bytes, capacity %d, size %d", len(batch), cap(batch), h.Size())
		}
		offsets, rest = append(offsets, h.BaseOffset), after
	}
	if !reflect.DeepEqual(offsets, []model.Offset{0, 1}) {
		t.Fatalf("offsets %v", offsets)
	}
	if _, rest, _, err := Next(two[:len(two)-1]); !errors.Is(err, ErrShort) || len(rest) != len(two)-1 {
		t.Fatalf("a cut batch: %v", err)
	}
	if b, _, _, err := Next(nil); b != nil || err != nil {
		t.Fatalf("nothing: %v, %v", b, err)
	}
}

func TestEveryPrefixIsShort(t *testing.T) {
	b := Build(BuildOptions{}, someRecs...)
	for n := range b {
		if _, _, err := Parse(b[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
		if _, err := CheckProduce(b[:n]); !refusal.Is(err, refusal.CorruptBatch) {
			t.Fatalf("produce of %d bytes: %v", n, err)
		}
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	b := Build(BuildOptions{}, someRecs...)
	for i := range b {
		if i < atLength || i >= atLeaderEpoch && i < atMagic {
			continue // base offset and leader epoch lie outside the checksum
		}
		bad := append([]byte{}, b...)
		bad[i] ^= 0x10
		if _, err := Check(bad); err == nil {
			t.Errorf("byte %d of %d", i, len(b))
		}
	}
}

func TestCheckProduceRefuses(t *testing.T) {
	// tamper changes a valid batch and seals it again.
	tamper := func(change func(b []byte) []byte) []byte {
		b := change(Build(BuildOptions{}, someRecs...))
		binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthPrefix))
		Seal(b)
		return b
	}
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b }
	}
	for name, c := range map[string]struct {
		batch  []byte
		reason refusal.Reason
	}{
		"nothing":       {nil, refusal.CorruptBatch},
		"two batches":   {append(Build(BuildOptions{}, someRecs...), Build(BuildOptions{}, someRecs...)...), refusal.CorruptBatch},
		"trailing byte": {append(Build(BuildOptions{}, someRecs...), 0), refusal.CorruptBatch},
		"format 1":      {func() []byte { b := Build(BuildOptions{}, someRecs...); b[atMagic] = 1; return b }(), refusal.UnsupportedFormat},
		"control":       {Build(BuildOptions{Control: true}, someRecs...), refusal.CorruptBatch},
		"transactional": {Build(BuildOptions{Transactional: true}, someRecs...), refusal.UnsupportedFormat},
		"no record":     {tamper(put32(atRecords, 0)), refusal.CorruptBatch},
		"more counted":  {tamper(put32(atRecords, 4)), refusal.CorruptBatch},
		"delta differs": {tamper(put32(atLastOffsetDelta, 3)), refusal.CorruptBatch},
		"both say more": {tamper(func(b []byte) []byte { return put32(atLastOffsetDelta, 3)(put32(atRecords, 4)(b)) }), refusal.CorruptBatch},
		"both say less": {tamper(func(b []byte) []byte { return put32(atLastOffsetDelta, 1)(put32(atRecords, 2)(b)) }), refusal.CorruptBatch},
		"huge count":    {tamper(func(b []byte) []byte { return put32(atLastOffsetDelta, 1<<31-2)(put32(atRecords, 1<<31-1)(b)) }), refusal.CorruptBatch},
		"negative":      {tamper(put32(atRecords, 1<<31)), refusal.CorruptBatch},
		"record length": {tamper(func(b []byte) []byte { b[HeaderSize] = 0x7f; return b }), refusal.CorruptBatch},
		"offset delta":  {tamper(func(b []byte) []byte { b[HeaderSize+3] = 2; return b }), refusal.CorruptBatch},
		"unknown codec": {tamper(func(b []byte) []byte { b[atAttributes+1] = 7; return b }), refusal.UnsupportedFormat},
		"empty gzip":    {tamper(func(b []byte) []byte { b[atAttributes+1] = 1; return b[:HeaderSize] }), refusal.CorruptBatch},
		"bad sequence":  {Build(BuildOptions{Producer: &Producer{ID: 1, Epoch: 0, Sequence: -5}}, someRecs...), refusal.CorruptBatch},
		"bad epoch":     {Build(BuildOptions{Producer: &Producer{ID: 1, Epoch: -1, Sequence: 0}}, someRecs...), refusal.CorruptBatch},
		"length of 2G":  {func() []byte { b := Build(BuildOptions{}, someRecs...); b[atLength] = 0x7f; return b }(), refusal.CorruptBatch},
	} {
		if _, err := CheckProduce(c.batch); !refusal.Is(err, c.reason) {
			t.Errorf("%s: %v, want %s", name, err, c.reason)
		}
	}
	if _, err := CheckProduce(Build(BuildOptions{Producer: &Producer{ID: 1, Epoch: 2, Sequence: 3}}, someRecs...)); err != nil {
		t.Errorf("an idempotent batch: %v", err)
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range []struct{ from, n, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 4, 2}, {math.MaxInt32, 0, math.MaxInt32},
	} {
		if got := AddSequence(c.from, c.n); got != c.want {
			t.Errorf("%d + %d = %d, want %d", c.from, c.n, got, c.want)
		}
	}
}

func TestXerialSnappy(t *testing.T) {
	raw := bytes.Repeat([]byte("abc"), 100)
	framed := append(append([]byte{}, xerialMagic...), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range [][]byte{raw[:120], raw[120:]} {
		block := snappy.Encode(nil, part)
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
		framed = append(framed, block...)
	}
	got, err := decompress(Snappy, framed, 1000)
	if err != nil || !bytes.Equal(got, raw) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for n := len(xerialMagic); n < len(framed); n++ {
		got, err := decompress(Snappy, framed[:n], 1000)
		if err == nil && len(got) == len(raw) {
			t.Fatalf("all of it out of %d bytes", n)
		}
	}
	if _, err := decompress(Snappy, framed, 299); err == nil {
		t.Fatal("more came out than was allowed")
	}
}

func FuzzBatch(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		f.Add(Build(BuildOptions{Codec: codec}, someRecs...))
	}
	f.Add(Build(BuildOptions{Producer: &Producer{ID: 5, Epoch: 1, Sequence: 9}}, someRecs...))
	f.Add([]byte{})
	f.Add(make([]byte, HeaderSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, err := Parse(b)
		if err == nil && (size > len(b) || size < HeaderSize || h.NextOffset() <= h.BaseOffset) {
			t.Fatalf("size %d of %d, %+v", size, len(b), h)
		}
		if batch, rest, _, err := Next(b); err == nil && len(batch)+len(rest) != len(b) {
			t.Fatal("bytes got lost")
		}
		if checked, err := CheckProduce(b); err == nil {
			h, err := Check(b)
			if err != nil || checked.Header() != h || !bytes.Equal(checked.Bytes(), b) {
				t.Fatalf("accepted %+v with %v", checked.Header(), err)
			}
			stamped := checked.Stamp(9, 3)
			if h, err := Check(b); err != nil || h != stamped || h.BaseOffset != 9 || h.LeaderEpoch != 3 {
				t.Fatalf("stamped %+v, read back %+v, %v", stamped, h, err)
			}
		} else if checked.Size() != 0 {
			t.Fatalf("refused, yet %d bytes count as checked", checked.Size())
		}
		if err == nil {
			// With the checksum made good, the parts behind it are reached, too.
			sound := append([]byte{}, b[:size]...)
			Seal(sound)
			_, _ = CheckProduce(sound)
			if recs, err := Decode(sound, 1<<16); err == nil && len(recs) != int(h.Records) {
				t.Fatalf("%d records of %d", len(recs), h.Records)
			}
		}
	})
}

func BenchmarkCheckProduce(b *testing.B) {
	recs := make([]Rec, 160)
	for i := range recs {
		recs[i].Value = make([]byte, 100)
	}
	batch := Build(BuildOptions{}, recs...)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CheckProduce(batch); err != nil {
			b.Fatal(err)
		}
	}
}

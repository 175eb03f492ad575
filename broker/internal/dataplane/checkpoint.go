package dataplane

import (
	"encoding/binary"
	"hash/crc32"
	"path"
	"slices"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/vfs"
)

// The checkpoint of high watermarks, big endian:
//
//	magic "ISHW" | version 1 (2 bytes) | count (4) | count x (topic 16, index 4, offset 8) | CRC32C of all before (4)
//
// A high watermark lets a restarted follower not truncate what it knows is
// committed, lets a new leader serve reads at once, and shows that a log lost what
// was committed. A missing or damaged file only costs that.
const (
	marksMagic   = "ISHW"
	marksVersion = 1
	marksHead    = 4 + 2 + 4
	marksEntry   = 16 + 4 + 8
	marksBytes   = 64 << 20 // bound of the file
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (p *Plane) marksFile() string { return path.Join(p.cfg.Dir, "high-watermarks") }

// writeMarks replaces the checkpoint.
func (p *Plane) writeMarks(durable bool) error {
	marks := map[model.Partition]model.Offset{}
	for _, l := range p.snapshot() {
		l.mu.Lock()
		if !l.dropped && l.replica != nil {
			marks[l.id] = l.replica.HighWatermark()
		}
		l.mu.Unlock()
	}
	return vfs.WriteFile(p.cfg.FS, p.marksFile(), encodeMarks(marks), durable)
}

// readMarks reads the checkpoint; empty when there is none that can be trusted.
func (p *Plane) readMarks() map[model.Partition]model.Offset {
	b, err := vfs.ReadFile(p.cfg.FS, p.marksFile(), marksBytes)
	if err != nil {
		return nil
	}
	return decodeMarks(b)
}

func encodeMarks(marks map[model.Partition]model.Offset) []byte {
	ids := make([]model.Partition, 0, len(marks))
	for id := range marks {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, model.Partition.Compare)
	b := append(make([]byte, 0, marksHead+len(ids)*marksEntry+4), marksMagic...)
	b = binary.BigEndian.AppendUint16(b, marksVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(ids)))
	for _, id := range ids {
		b = append(b, id.Topic[:]...)
		b = binary.BigEndian.AppendUint32(b, uint32(id.Index))
		b = binary.BigEndian.AppendUint64(b, uint64(marks[id]))
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeMarks(b []byte) map[model.Partition]model.Offset {
	if len(b) < marksHead+4 || string(b[:4]) != marksMagic || binary.BigEndian.Uint16(b[4:]) != marksVersion {
		return nil
	}
	n := int(binary.BigEndian.Uint32(b[6:]))
	body := b[:len(b)-4]
	if n < 0 || n > len(body)/marksEntry || len(body) != marksHead+n*marksEntry ||
		binary.BigEndian.Uint32(b[len(b)-4:]) != crc32.Checksum(body, castagnoli) {
		return nil
	}
	out := make(map[model.Partition]model.Offset, n)
	for at := marksHead; at < len(body); at += marksEntry {
		var id model.Partition
		copy(id.Topic[:], body[at:])
		id.Index = int32(binary.BigEndian.Uint32(body[at+16:]))
		out[id] = model.Offset(binary.BigEndian.Uint64(body[at+20:]))
	}
	return out
}

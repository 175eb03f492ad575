package load

import (
	"bytes"
	"fmt"
	"hash/crc32"
)

// payload is what one record holds: its uid, a newline, and filler that depends
// on the uid, so that a mixed-up record has another checksum.
type payload struct {
	uid, key string
	value    []byte
	crc      uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func newPayload(c Config, topic string, seq int64) payload {
	p := payload{uid: fmt.Sprintf("%s/%s/%d", c.ID, topic, seq), key: fmt.Sprintf("k%d", seq%int64(max(c.Keys, 1)))}
	p.value = append([]byte(p.uid), '\n')
	for i := 0; len(p.value) < c.Size; i++ {
		p.value = append(p.value, p.uid[i%len(p.uid)])
	}
	p.crc = crc32.Checksum(p.value, castagnoli)
	return p
}

// uidOf reads the uid of a record; of a foreign one it is a short excerpt.
func uidOf(value []byte) string {
	uid, _, _ := bytes.Cut(value, []byte{'\n'})
	return string(uid[:min(len(uid), 120)])
}

package dataplane

import (
	"sync"

	"github.com/ister-mq/ister/broker/internal/model"
	"github.com/ister-mq/ister/broker/internal/segment"
)

// Read buffers are pooled by size: fresh memory costs more than the copy into it.
// A log reads a little more than it is asked for, hence the margin.
const readMargin = 8 << 10

var bufferClasses = [...]int{16 << 10, 64 << 10, 256 << 10, 1<<20 + readMargin, 4<<20 + readMargin}

var bufferPools [len(bufferClasses)]sync.Pool

// buffer is one pooled buffer; nil memory is none.
type buffer struct {
	memory *[]byte
	class  int
}

// getBuffer returns a buffer of at least n bytes, or the largest there is.
func getBuffer(n int) buffer {
	class := 0
	for class < len(bufferClasses)-1 && bufferClasses[class] < n {
		class++
	}
	if memory, ok := bufferPools[class].Get().(*[]byte); ok {
		return buffer{memory, class}
	}
	memory := make([]byte, bufferClasses[class])
	return buffer{&memory, class}
}

func (b buffer) put() {
	if b.memory != nil {
		bufferPools[b.class].Put(b.memory)
	}
}

// readLog reads whole batches into a pooled buffer. The caller puts the buffer
// back when the batches are no longer used.
func readLog(log *segment.Log, from model.Offset, maxBytes int, upTo model.Offset, atLeastOne bool) ([]byte, buffer, error) {
	b := getBuffer(min(maxBytes, expectedBytes(log, from, upTo)) + readMargin)
	batches, err := log.ReadInto(*b.memory, from, maxBytes, upTo, atLeastOne)
	if err != nil || len(batches) == 0 {
		b.put()
		return nil, buffer{}, err
	}
	return batches, b, nil
}

// expectedBytes guesses, by the average record with a margin, how much the log
// holds between two offsets. A wrong guess costs an allocation, nothing else.
func expectedBytes(log *segment.Log, from, upTo model.Offset) int {
	records := int64(log.LogEnd() - log.LogStart())
	if records <= 0 || upTo <= from {
		return 0
	}
	each := log.Bytes()/records + 1
	wanted := int64(upTo - from)
	if wanted > 1<<20 || each > 1<<20 {
		return bufferClasses[len(bufferClasses)-1]
	}
	return int(min(wanted*each*5/4, int64(bufferClasses[len(bufferClasses)-1])))
}

package kafka

import (
	"math/bits"
	"sync"
)

// buffer is a pooled byte slice. Pools keep one size class each, the powers of
// two from 1 KiB to 8 MiB; larger buffers are left to the collector.
type buffer struct{ b []byte }

const (
	smallestClass = 10
	largestClass  = 23
)

var bufferPools [largestClass + 1]sync.Pool

// getBuffer returns a buffer whose b has length n and any content.
func getBuffer(n int) *buffer {
	class := max(smallestClass, bits.Len(uint(max(n, 1)-1)))
	if class > largestClass {
		return &buffer{b: make([]byte, n)}
	}
	if v := bufferPools[class].Get(); v != nil {
		buf := v.(*buffer)
		buf.b = buf.b[:n]
		return buf
	}
	return &buffer{b: make([]byte, n, 1<<class)}
}

// put gives the buffer back. Nothing may use its bytes afterwards.
func (buf *buffer) put() {
	class := bits.Len(uint(cap(buf.b))) - 1
	if class >= smallestClass && class <= largestClass && cap(buf.b) == 1<<class {
		bufferPools[class].Put(buf)
	}
}

// grown returns a buffer of length n with the start of buf, which it gives back.
func (buf *buffer) grown(n int) *buffer {
	next := getBuffer(n)
	copy(next.b, buf.b)
	buf.put()
	return next
}

package vfs

import (
	"math/rand/v2"
	"sort"
)

// sector is the unit in which an unsynced write survives or not.
const sector = 512

// CrashClone returns what the disk could hold after a power failure now; m itself
// goes on unharmed. Everything synced survives. Of each unsynced write every
// 512-byte sector survives or not, of unsynced truncations and name changes each
// survives whole or not, and a file may have grown without its data (zeros). A
// rename within one directory is atomic. The same seed on the same history gives
// the same clone.
func (m *Memory) CrashClone(seed uint64) *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &cloner{random: rand.New(rand.NewPCG(seed, 0x157e12)), done: map[*memoryNode]*memoryNode{}}
	// Some crashes lose nearly everything unsynced, some nearly nothing.
	c.keep = []float64{0, 0.1, 0.5, 0.9, 1}[c.random.IntN(5)]
	clone := NewMemory()
	clone.root = c.clone(m.root)
	return clone
}

type cloner struct {
	random *rand.Rand
	keep   float64
	done   map[*memoryNode]*memoryNode // a node reached by two names stays one file
}

func (c *cloner) kept() bool { return c.random.Float64() < c.keep }

func (c *cloner) clone(n *memoryNode) *memoryNode {
	if out := c.done[n]; out != nil {
		return out
	}
	if !n.dir {
		out := &memoryNode{data: c.content(n)}
		out.durable = append([]byte{}, out.data...)
		c.done[n] = out
		return out
	}
	out := newDirectory()
	c.done[n] = out
	names := map[string]*memoryNode{}
	for name, node := range n.durableNames {
		names[name] = node
	}
	for _, change := range n.nameChanges {
		if !c.kept() {
			continue
		}
		for name, node := range change.set {
			if node == nil {
				delete(names, name)
			} else {
				names[name] = node
			}
		}
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	sort.Strings(sorted)
	for _, name := range sorted {
		node := c.clone(names[name])
		out.names[name], out.durableNames[name] = node, node
	}
	return out
}

func (c *cloner) content(n *memoryNode) []byte {
	data := append([]byte{}, n.durable...)
	for _, change := range n.changes {
		if change.data == nil {
			if c.kept() {
				data = change.apply(data)
			}
			continue
		}
		if end := change.at + int64(len(change.data)); end > int64(len(data)) && c.kept() {
			data = append(data, make([]byte, end-int64(len(data)))...)
		}
		for at := int64(0); at < int64(len(change.data)); {
			// Sectors are aligned in the file, not in the write.
			next := min(int64(len(change.data)), at+sector-(change.at+at)%sector)
			if c.kept() {
				data = memoryWrite{at: change.at + at, data: change.data[at:next]}.apply(data)
			}
			at = next
		}
	}
	return data
}

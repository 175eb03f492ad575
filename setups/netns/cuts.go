package netns

import (
	"sync"

	"github.com/ister-mq/ister/setups"
)

// everyone stands for all ends in a way.
const everyone = "*"

// way is one direction between two ends.
type way struct{ from, to string }

// cuts are the ways on which everything is lost. The zero value has none.
type cuts struct {
	mu   sync.Mutex
	ways map[way]bool // guarded by mu
}

// add cuts a part of what an end hears and says.
func (c *cuts) add(cut setups.Cut) {
	peer := cut.Peer
	if peer == "" {
		peer = everyone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ways == nil {
		c.ways = map[way]bool{}
	}
	if cut.Direction != setups.In {
		c.ways[way{cut.Broker, peer}] = true
	}
	if cut.Direction != setups.Out {
		c.ways[way{peer, cut.Broker}] = true
	}
}

// heal ends every cut of an end.
func (c *cuts) heal(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.ways {
		if w.from == name || w.to == name {
			delete(c.ways, w)
		}
	}
}

// lost reports whether what one end sends to another is lost.
func (c *cuts) lost(from, to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ways[way{from, to}] || c.ways[way{from, everyone}] || c.ways[way{everyone, to}]
}

package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sync"
	"time"
)

// entry is one line of the audit log: one call of a tool.
type entry struct {
	At      time.Time      `json:"at"`
	Actor   string         `json:"actor"`
	Tool    string         `json:"tool"`
	Risk    Risk           `json:"risk"`
	Args    map[string]any `json:"args"`
	Hash    string         `json:"args_hash"`
	Outcome string         `json:"outcome"` // done, planned or error
	Code    string         `json:"code,omitempty"`
	TookMS  int64          `json:"took_ms"`
}

// auditLog writes entries as lines of JSON.
type auditLog struct {
	mu    sync.Mutex
	out   io.Writer    // guarded by mu; nil: none is kept
	fault func(string) // told once when a line cannot be written
	told  bool         // guarded by mu
}

func (l *auditLog) write(e entry) {
	if l.out == nil {
		return
	}
	line, err := json.Marshal(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	if err != nil && !l.told {
		l.told = true
		l.fault(fmt.Sprintf("write the audit log: %v", err))
	}
}

// secretName matches argument and config names whose values are not logged.
var secretName = regexp.MustCompile(`(?i)token|secret|passw|credential|key$`)

// redacted copies arguments for the log: secrets and a plan's seal are left out,
// and long texts are cut.
func redacted(values map[string]any) map[string]any {
	out := make(map[string]any, len(values))
	for name, value := range values {
		switch v := value.(type) {
		case string:
			value = abridge(v)
		case map[string]string:
			pairs := make(map[string]any, len(v))
			for n, text := range v {
				pairs[n] = text
			}
			value = redacted(pairs)
		}
		if secretName.MatchString(name) || name == "plan_id" && value != "" {
			value = "(left out)"
		}
		out[name] = value
	}
	return out
}

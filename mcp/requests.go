package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// refusal answers a message that the transport would refuse without saying what to
// do: a batch, and a call of a tool that is not offered. nil: it is none of them.
func (s *Server) refusal(from string, raw []byte) []byte {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return refusedRequest(nil, -32600, "batches are not part of this protocol: send one request at a time", nil)
	}
	var call struct {
		ID     json.RawMessage `json:"id"` // with all its digits
		Method string          `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	if json.Unmarshal(raw, &call) != nil || len(call.ID) == 0 || string(call.ID) == "null" || call.Method != "tools/call" || s.offers(call.Params.Name) {
		return nil
	}
	f := s.unknownTool(call.Params.Name)
	s.audit.write(entry{At: s.config.Now().UTC(), Actor: from, Tool: abridge(call.Params.Name), Args: map[string]any{}, Outcome: "error", Code: f.Code})
	return refusedRequest(call.ID, -32602, f.Message, f)
}

func (s *Server) unknownTool(name string) *failure {
	f := &failure{Code: codeToolUnknown, Message: fmt.Sprintf("no tool is called %q", abridge(name)), Got: abridge(name), Expected: "a tool of tools/list"}
	if call, ok := s.offered(step{name, nil, "then list the tools again"}); ok { // it is known, and off
		f.Message = fmt.Sprintf("the tool %s is off: call toolsets_enable with toolset %v", name, call.Args["toolset"])
		f.Fix = fixOf(call)
		return f
	}
	offered := []string{}
	s.mu.RLock()
	for known := range s.tools {
		offered = append(offered, known)
	}
	s.mu.RUnlock()
	f.Message += didYouMean(name, offered)
	return f
}

// refusedRequest is an error of the protocol, as one line.
func refusedRequest(id json.RawMessage, code int, message string, data any) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	err := map[string]any{"code": code, "message": message}
	if data != nil {
		err["data"] = data
	}
	return append(mustJSON(map[string]any{"jsonrpc": "2.0", "id": id, "error": err}), '\n')
}

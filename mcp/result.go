package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	protocol "github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// ResultMax bounds the JSON of a result, in bytes. Hosts cut what is longer.
const ResultMax = 8 << 10

// step is a call that makes sense next.
type step struct {
	Tool string         `json:"tool"`
	Args map[string]any `json:"args"`
	Why  string         `json:"why"`
}

// answer is what a handler found or did.
type answer struct {
	body    any // encodes to a JSON object
	summary string
	next    []step
}

// message makes the answer out of one of the admin API, as the CLI prints it.
func message(m proto.Message, summary string, next ...step) (*answer, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return &answer{body: json.RawMessage(raw), summary: summary, next: next}, nil
}

// object turns any value that encodes to a JSON object into one. Numbers keep
// their digits.
func object(value any) (map[string]any, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	out := map[string]any{}
	if err := decoder.Decode(&out); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return out, nil
}

// result renders an answer: the same JSON as structured content and as text,
// since some hosts show only one of them.
func (s *Server) result(t *tool, in input, a *answer) (*protocol.CallToolResult, error) {
	out, err := object(a.body)
	if err != nil {
		return nil, err
	}
	out["summary"] = a.summary
	next := []step{}
	for _, n := range a.next {
		if call, ok := s.offered(n); ok {
			next = append(next, call)
		}
	}
	out["next"] = next
	if t.planned() && out["status"] == nil {
		out["status"] = statusDone
	}
	list := t.list
	if list != "" && out["status"] == statusPlanned {
		list = planList
	}
	raw, err := fit(out, list, in)
	if err != nil {
		return nil, err
	}
	return &protocol.CallToolResult{Content: []protocol.Content{protocol.NewTextContent(string(raw))}, StructuredContent: json.RawMessage(raw)}, nil
}

// fit pages the list of a result and takes so many rows that the whole has at
// most ResultMax bytes.
func fit(out map[string]any, list string, in input) ([]byte, error) {
	holder, name := out, list
	for {
		head, rest, deeper := strings.Cut(name, ".")
		inner, isThere := holder[head].(map[string]any)
		if !deeper || !isThere {
			break
		}
		holder, name = inner, rest
	}
	rows, _ := holder[name].([]any)
	start, rowsMax := 0, len(rows)
	if list != "" {
		if cursor := in.text("cursor"); cursor != "" {
			n, err := strconv.Atoi(cursor)
			if err != nil || n < 0 || n > len(rows) {
				return nil, &failure{Code: codeInvalidArgument, Message: "the cursor is not one of this list, which may have changed", Got: abridge(cursor), Expected: "the next_cursor of the result before, or none", Fix: &fix{Tool: in.tool.name, Args: in.given()}}
			}
			start = n
		}
		rowsMax = min(len(rows)-start, int(in.number("limit")))
		out["total"] = len(rows)
	}
	for {
		if list != "" && rows != nil {
			holder[name] = rows[start : start+rowsMax]
			delete(out, "next_cursor")
			if start+rowsMax < len(rows) {
				out["next_cursor"] = strconv.Itoa(start + rowsMax)
			}
		}
		raw, err := json.Marshal(out)
		switch {
		case err != nil:
			return nil, fmt.Errorf("encode the result: %w", err)
		case len(raw) <= ResultMax:
			return raw, nil
		case list == "" || rowsMax <= 1:
			return shorten(out)
		}
		rowsMax = max(1, min(rowsMax-1, rowsMax*ResultMax/len(raw)))
	}
}

// shorten cuts long texts, and then long lists, of a result that cannot be paged.
func shorten(out map[string]any) ([]byte, error) {
	for most := 256; most >= 1; most /= 2 {
		cut, _ := shortened(out, most).(map[string]any)
		cut["shortened"] = true
		raw, err := json.Marshal(cut)
		if err != nil {
			return nil, fmt.Errorf("encode the result: %w", err)
		}
		if len(raw) <= ResultMax {
			return raw, nil
		}
	}
	return nil, fmt.Errorf("the result does not fit into %d bytes", ResultMax)
}

// shortened copies a value with lists of at most most elements and texts of at
// most eight times as many bytes. Short maps keep all their keys.
func shortened(value any, most int) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = shortened(inner, most)
		}
		return out
	case []any:
		out := []any{}
		for _, inner := range v[:min(len(v), most)] {
			out = append(out, shortened(inner, most))
		}
		return out
	case string:
		if longest := max(160, 8*most); len(v) > longest {
			return strings.ToValidUTF8(v[:longest], "") + "..."
		}
	}
	return value
}

// plural counts things in words.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

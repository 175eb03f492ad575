package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gopkg.in/yaml.v3"
)

// The values of --output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// print writes a result: the message as JSON or YAML, or what text writes.
func (c *call) print(message proto.Message, text func(w io.Writer)) error {
	var out bytes.Buffer
	switch c.output {
	case formatJSON:
		if err := writeJSON(&out, message); err != nil {
			return err
		}
	case formatYAML:
		if err := writeYAML(&out, message); err != nil {
			return err
		}
	default:
		text(&out)
	}
	if _, err := c.stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func writeJSON(w *bytes.Buffer, message proto.Message) error {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(message)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	if err := json.Indent(w, raw, "", "  "); err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	w.WriteByte('\n')
	return nil
}

func writeYAML(w *bytes.Buffer, message proto.Message) error {
	var raw bytes.Buffer
	if err := writeJSON(&raw, message); err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(raw.Bytes(), &node); err != nil { // JSON is YAML; this keeps the order
		return fmt.Errorf("encode the result: %w", err)
	}
	blockStyle(&node)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(&node); err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	return encoder.Close()
}

func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 {
		n.Style = 0
	} else if n.Kind == yaml.ScalarNode {
		n.Style &^= yaml.DoubleQuotedStyle // quoted again where the text needs it
	}
	for _, child := range n.Content {
		blockStyle(child)
	}
}

// lower prints an enum's value as a word.
func lower(v fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(v.String()), "_", "-")
}

// list prints ids as 1, 2, 3.
func list(ids []int32) string {
	if len(ids) == 0 {
		return "none"
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = strconv.Itoa(int(id))
	}
	return strings.Join(words, ", ")
}

// set prints ids as 1,2,3 for a table's cell.
func set(ids []int32) string {
	if len(ids) == 0 {
		return "-"
	}
	return strings.ReplaceAll(list(ids), ", ", ",")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// idOrNone prints the absent id as a word.
func idOrNone(id int32) string {
	if id == 0 {
		return "none"
	}
	return number(id)
}

// size prints bytes for people.
func size(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/step, 0
	for value >= step && unit < 4 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[unit])
}

func knownSize(v *wrapperspb.Int64Value) string {
	if v == nil {
		return "-"
	}
	return size(v.GetValue())
}

// variation prints a coefficient, or that there is none.
func variation(v *wrapperspb.DoubleValue) string {
	if v == nil {
		return "none (nothing is placed)"
	}
	return fmt.Sprintf("%.4f", v.GetValue())
}

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

func round(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

package adminapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonCodec is JSON with the field names of the .proto files, every field
// present, and unknown fields refused: a misspelt dry_run must not run.
type jsonCodec struct{ name string }

var _ connect.Codec = jsonCodec{}

// Name implements connect.Codec.
func (c jsonCodec) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c jsonCodec) Marshal(value any) ([]byte, error) {
	message, ok := value.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a message", value)
	}
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(message)
	if err != nil {
		return nil, err
	}
	// protojson varies its blanks between builds; answers should not.
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// MarshalStable lets side-effect-free calls be made by HTTP GET.
func (c jsonCodec) MarshalStable(value any) ([]byte, error) { return c.Marshal(value) }

// IsBinary tells Connect that the encoding is text.
func (c jsonCodec) IsBinary() bool { return false }

// Unmarshal implements connect.Codec.
func (c jsonCodec) Unmarshal(raw []byte, value any) error {
	message, ok := value.(proto.Message)
	if !ok {
		return fmt.Errorf("decode into %T: not a message", value)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil // an empty body is a request without fields
	}
	return protojson.Unmarshal(raw, message)
}

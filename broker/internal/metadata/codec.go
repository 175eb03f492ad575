package metadata

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"reflect"

	"github.com/ister-mq/ister/broker/internal/model"
)

// The framing of everything this package writes: magic (4 bytes), version (2),
// reserved (2), length of the body (4), CRC32C of the body (4), body (JSON).
// See docs/formats/metadata.md.
const (
	frameHeader   = 16
	formatVersion = 1
	batchMagic    = "ISMB"
	imageMagic    = "ISMI"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func frame(magic string, body []byte) []byte {
	out := make([]byte, frameHeader, frameHeader+len(body))
	copy(out, magic)
	binary.BigEndian.PutUint16(out[4:], formatVersion)
	binary.BigEndian.PutUint32(out[8:], uint32(len(body)))
	binary.BigEndian.PutUint32(out[12:], crc32.Checksum(body, castagnoli))
	return append(out, body...)
}

func unframe(magic, what string, b []byte) ([]byte, error) {
	switch {
	case len(b) < frameHeader:
		return nil, fmt.Errorf("%s: %d bytes, expected at least %d", what, len(b), frameHeader)
	case string(b[:4]) != magic:
		return nil, fmt.Errorf("%s: magic %q, expected %q", what, b[:4], magic)
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != formatVersion {
		return nil, fmt.Errorf("%s: format version %d, this build reads version %d; run a newer build", what, v, formatVersion)
	}
	body := b[frameHeader:]
	if n := binary.BigEndian.Uint32(b[8:]); uint64(n) != uint64(len(body)) {
		return nil, fmt.Errorf("%s: length %d, got %d bytes", what, n, len(body))
	}
	if got, want := crc32.Checksum(body, castagnoli), binary.BigEndian.Uint32(b[12:]); got != want {
		return nil, fmt.Errorf("%s: checksum %08x, expected %08x", what, got, want)
	}
	return body, nil
}

// typed is a value with its stable type name.
type typed struct {
	Type string          `json:"t"`
	Data json.RawMessage `json:"d"`
}

// registry maps stable names to types, both ways.
type registry struct {
	what   string
	byName map[string]reflect.Type
	byType map[reflect.Type]string
}

func newRegistry(what string, values map[string]any) registry {
	r := registry{what: what, byName: map[string]reflect.Type{}, byType: map[reflect.Type]string{}}
	for name, v := range values {
		t := reflect.TypeOf(v).Elem()
		r.byName[name], r.byType[t] = t, name
	}
	return r
}

func (r registry) encode(v any) (typed, error) {
	name, ok := r.byType[reflect.TypeOf(v).Elem()]
	if !ok {
		return typed{}, fmt.Errorf("encode %s: type %T has no name", r.what, v)
	}
	data, err := json.Marshal(v)
	return typed{Type: name, Data: data}, err
}

func (r registry) decode(t typed) (any, error) {
	typ, ok := r.byName[t.Type]
	if !ok {
		return nil, fmt.Errorf("decode %s: type %q is not known to this build", r.what, t.Type)
	}
	v := reflect.New(typ)
	if err := json.Unmarshal(t.Data, v.Interface()); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", r.what, t.Type, err)
	}
	return v.Interface(), nil
}

var records = newRegistry("record", map[string]any{
	"cluster_formed": &ClusterFormed{}, "node_changed": &NodeChanged{}, "node_removed": &NodeRemoved{},
	"namespace_created": &NamespaceCreated{}, "namespace_deleted": &NamespaceDeleted{},
	"topic_created": &TopicCreated{}, "topic_deleted": &TopicDeleted{},
	"partition_changed": &PartitionChanged{}, "producers_allocated": &ProducersAllocated{},
	"operation_started": &OperationStarted{}, "operation_changed": &OperationChanged{},
	"move_changed": &MoveChanged{}, "operation_forgotten": &OperationForgotten{},
})

var commands = newRegistry("command", map[string]any{
	"form_cluster": &FormCluster{}, "add_node": &AddNode{}, "register_node": &RegisterNode{},
	"fence_node": &FenceNode{}, "unfence_node": &UnfenceNode{}, "set_node_state": &SetNodeState{},
	"remove_node": &RemoveNode{}, "create_namespace": &CreateNamespace{}, "delete_namespace": &DeleteNamespace{},
	"create_topic": &CreateTopic{}, "delete_topic": &DeleteTopic{}, "alter_isr": &AlterISR{},
	"elect_leaders": &ElectLeaders{}, "allocate_producers": &AllocateProducers{},
	"start_operation": &StartOperation{}, "advance_move": &AdvanceMove{}, "finish_operation": &FinishOperation{},
	"cancel_operation": &CancelOperation{}, "replica_retired": &ReplicaRetired{},
})

var results = newRegistry("result", map[string]any{
	"node": &NodeResult{}, "topic": &TopicResult{}, "operation": &OperationResult{},
	"alter_isr": &AlterISRResult{}, "elect": &ElectResult{}, "producers": &ProducersResult{},
})

// EncodeCommand gives the command's bytes for another node.
func EncodeCommand(c Command) ([]byte, error) {
	t, err := commands.encode(c)
	if err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// DecodeCommand reads what EncodeCommand wrote.
func DecodeCommand(b []byte) (Command, error) {
	var t typed
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("decode command: %w", err)
	}
	v, err := commands.decode(t)
	if err != nil {
		return nil, err
	}
	return v.(Command), nil
}

// EncodeResult gives the bytes of a Decision's result; nil is a result too.
func EncodeResult(v any) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	t, err := results.encode(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// DecodeResult reads what EncodeResult wrote.
func DecodeResult(b []byte) (any, error) {
	if string(b) == "null" {
		return nil, nil
	}
	var t typed
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("decode result: %w", err)
	}
	return results.decode(t)
}

type wireBatch struct {
	Base    model.Revision `json:"base"`
	Records []typed        `json:"records"`
}

// EncodeBatches gives the bytes of one metadata log entry, which holds one batch
// or several that build on each other.
func EncodeBatches(batches []Batch) ([]byte, error) {
	wire := make([]wireBatch, len(batches))
	for i, b := range batches {
		wire[i] = wireBatch{Base: b.Base, Records: make([]typed, len(b.Records))}
		for j, r := range b.Records {
			t, err := records.encode(r)
			if err != nil {
				return nil, err
			}
			wire[i].Records[j] = t
		}
	}
	body, err := json.Marshal(wire)
	if err != nil {
		return nil, fmt.Errorf("encode batches: %w", err)
	}
	return frame(batchMagic, body), nil
}

// DecodeBatches reads what EncodeBatches wrote.
func DecodeBatches(b []byte) ([]Batch, error) {
	body, err := unframe(batchMagic, "metadata batch", b)
	if err != nil {
		return nil, err
	}
	var wire []wireBatch
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, fmt.Errorf("metadata batch: %w", err)
	}
	out := make([]Batch, len(wire))
	for i, w := range wire {
		out[i] = Batch{Base: w.Base, Records: make([]Record, len(w.Records))}
		for j, t := range w.Records {
			v, err := records.decode(t)
			if err != nil {
				return nil, err
			}
			out[i].Records[j] = v.(Record)
		}
	}
	return out, nil
}

// Encode gives the bytes of the image for a snapshot.
func (im *Image) Encode() ([]byte, error) {
	body, err := json.Marshal(im)
	if err != nil {
		return nil, fmt.Errorf("encode metadata image: %w", err)
	}
	return frame(imageMagic, body), nil
}

// DecodeImage reads what Encode wrote.
func DecodeImage(b []byte) (*Image, error) {
	body, err := unframe(imageMagic, "metadata image", b)
	if err != nil {
		return nil, err
	}
	im := Empty()
	if err := json.Unmarshal(body, im); err != nil {
		return nil, fmt.Errorf("metadata image: %w", err)
	}
	for id, t := range im.Topics {
		im.topicByName[t.Name] = id
		im.topicByKafka[t.Name.Kafka()] = id
	}
	return im, nil
}

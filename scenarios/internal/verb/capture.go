package verb

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/scenarios/internal/spec"
)

type captureOutputs struct {
	Directory string `json:"directory" doc:"where the answers are, below the run's directory"`
	Files     int64  `json:"files" doc:"how many were written"`
}

func init() {
	define(meta{
		name: "capture.state", risk: spec.ReadOnly, doc: "Write the cluster's status, members, brokers, topics and operations into the run's directory, for a look afterwards.",
		command: "ister admin cluster status --output json",
		note:    "{directory}",
	}, captureState, nil)
}

// captureState asks everything and keeps what answers: a cluster in trouble may
// answer in part. It fails only when nothing could be kept.
func captureState(ctx context.Context, env *Env, _ none) (captureOutputs, error) {
	env.mu.Lock()
	env.captures++
	out := captureOutputs{Directory: filepath.Join("capture", fmt.Sprint(env.captures))}
	env.mu.Unlock()
	dir := filepath.Join(env.Dir, out.Directory)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return out, fmt.Errorf("make the capture directory: %w", err)
	}
	if env.kafkaOnly() {
		return captureOnKafka(ctx, env, dir, out)
	}
	admin, err := env.Admin()
	if err != nil {
		return out, err
	}
	var lastErr error
	keep := func(name string, answer proto.Message, err error) {
		if err == nil {
			var data []byte
			if data, err = (protojson.MarshalOptions{Multiline: true, EmitUnpopulated: true}).Marshal(answer); err == nil {
				err = os.WriteFile(filepath.Join(dir, name+".json"), append(data, '\n'), 0o644)
			}
		}
		if err != nil {
			lastErr = fmt.Errorf("capture %s: %w", name, err)
			return
		}
		out.Files++
	}
	status, err := admin.Cluster.GetStatus(ctx, &adminv1.GetStatusRequest{})
	keep("status", status, err)
	members, err := admin.Cluster.ListMembers(ctx, &adminv1.ListMembersRequest{})
	keep("members", members, err)
	brokers, err := admin.Brokers.ListBrokers(ctx, &adminv1.ListBrokersRequest{})
	keep("brokers", brokers, err)
	operations, err := admin.Operations.ListOperations(ctx, &adminv1.ListOperationsRequest{})
	keep("operations", operations, err)
	moves, err := admin.Operations.ListMoves(ctx, &adminv1.ListMovesRequest{All: true})
	keep("moves", moves, err)
	topics, err := admin.Topics.ListTopics(ctx, &adminv1.ListTopicsRequest{})
	keep("topics", topics, err)
	for i, t := range topics.GetTopics() {
		described, err := admin.Topics.DescribeTopic(ctx, &adminv1.DescribeTopicRequest{Name: t.GetName()})
		keep(fmt.Sprintf("topic-%d", i+1), described, err)
	}
	if out.Files == 0 {
		return out, lastErr
	}
	return out, nil
}

// captureOnKafka keeps what the Kafka protocol tells of brokers and topics.
func captureOnKafka(ctx context.Context, env *Env, dir string, out captureOutputs) (captureOutputs, error) {
	admin, err := env.kafkaAdmin()
	if err != nil {
		return out, err
	}
	defer admin.Close()
	metadata, err := admin.Metadata(ctx)
	if err != nil {
		return out, fmt.Errorf("capture the metadata: %w", err)
	}
	data, err := json.MarshalIndent(metadata, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "metadata.json"), append(data, '\n'), 0o644)
	}
	if err != nil {
		return out, fmt.Errorf("capture the metadata: %w", err)
	}
	out.Files++
	return out, nil
}

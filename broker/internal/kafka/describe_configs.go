package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/broker/internal/metadata"
)

// brokerNames are the names that Kafka gives the brokers' defaults of topic
// settings, where they differ from the topic's.
var brokerNames = map[string]string{
	metadata.KeyCleanup:        "log.cleanup.policy",
	metadata.KeyFlushMs:        "log.flush.interval.ms",
	metadata.KeyMaxMessage:     "message.max.bytes",
	metadata.KeyRetentionBytes: "log.retention.bytes",
	metadata.KeyRetentionMs:    "log.retention.ms",
	metadata.KeySegmentBytes:   "log.segment.bytes",
	metadata.KeyTimestampType:  "log.message.timestamp.type",
}

func brokerName(key string) string {
	if name, ok := brokerNames[key]; ok {
		return name
	}
	return key
}

func describeConfigs(_ context.Context, l *listener, req *kmsg.DescribeConfigsRequest, resp *kmsg.DescribeConfigsResponse) {
	v := l.backend.View()
	for _, r := range req.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		var entries []configEntry
		var refused *kerr.Error
		message := ""
		switch r.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			entries, refused = topicConfig(v.Image, r.ResourceName)
		case kmsg.ConfigResourceTypeBroker:
			entries, refused, message = brokerConfig(v, r.ResourceName)
		default:
			refused, message = kerr.InvalidRequest, "settings are kept for topics and brokers only"
		}
		if refused != nil {
			if message == "" {
				message = refused.Description
			}
			out.ErrorCode, out.ErrorMessage = refused.Code, &message
		}
		for _, e := range entries {
			if r.ConfigNames == nil || slices.Contains(r.ConfigNames, e.name) {
				out.Configs = append(out.Configs, e.encode(req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
}

// configEntry is one setting as clients see it.
type configEntry struct {
	name, value string
	explicit    bool
	readOnly    bool
	key         metadata.ConfigKey
	inherited   string // the default
}

func (e configEntry) encode(req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly = e.name, &e.value, e.readOnly
	out.Source = settingSource(e.explicit)
	out.ConfigType = configTypes[e.key.Type]
	if req.IncludeDocumentation {
		out.Documentation = &e.key.Doc
	}
	if req.IncludeSynonyms {
		if e.explicit {
			out.ConfigSynonyms = append(out.ConfigSynonyms, synonym(e.name, e.value, out.Source))
		}
		out.ConfigSynonyms = append(out.ConfigSynonyms, synonym(brokerName(e.key.Name), e.inherited, kmsg.ConfigSourceDefaultConfig))
	}
	return out
}

func synonym(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	s.Name, s.Value, s.Source = name, &value, source
	return s
}

func settingSource(explicit bool) kmsg.ConfigSource {
	if explicit {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}

var configTypes = map[metadata.ConfigType]kmsg.ConfigType{
	metadata.ConfigInt:    kmsg.ConfigTypeInt,
	metadata.ConfigLong:   kmsg.ConfigTypeLong,
	metadata.ConfigString: kmsg.ConfigTypeString,
}

func topicConfig(im *metadata.Image, name string) ([]configEntry, *kerr.Error) {
	t := im.TopicByKafkaName(name)
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition
	}
	var out []configEntry
	for _, key := range metadata.ConfigKeys {
		value, explicit := t.Setting(key.Name)
		out = append(out, configEntry{name: key.Name, value: value, explicit: explicit, key: key, inherited: key.DefaultFor(t.Dispatch)})
	}
	return out, nil
}

// brokerConfig lists the defaults that topics inherit, by their broker names. An
// empty name asks for settings made for all brokers at once, of which there are
// none.
func brokerConfig(v View, name string) ([]configEntry, *kerr.Error, string) {
	if name == "" {
		return nil, nil, ""
	}
	if id, err := strconv.ParseInt(name, 10, 32); err != nil || int32(id) != int32(v.Self) {
		return nil, kerr.InvalidRequest, fmt.Sprintf("broker %q was asked for at broker %s; ask that broker itself", name, v.Self)
	}
	fixed := func(name, value, doc string) configEntry {
		return configEntry{name: name, value: value, readOnly: true, inherited: value,
			key: metadata.ConfigKey{Name: name, Type: metadata.ConfigString, Doc: doc}}
	}
	out := []configEntry{
		fixed("auto.create.topics.enable", "false", "Topics are created by request only."),
		fixed("broker.id", v.Self.String(), "The permanent number of this node."),
	}
	for _, key := range metadata.ConfigKeys {
		out = append(out, configEntry{name: brokerName(key.Name), value: key.Default, readOnly: true, key: key, inherited: key.Default})
	}
	return out, nil, ""
}

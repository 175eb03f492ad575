package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// versionRange is what one API is served and advertised with. The table is the
// contract with clients: research and the reasons are in UNSUPPORTED.md.
type versionRange struct {
	key  kmsg.Key
	name string
	// min and max are advertised. Requests outside get an error or, where the
	// protocol has none, a closed connection.
	min, max int16
	// flexible is the first version with compact types and tags (KIP-482).
	flexible int16
}

// versions lists every API served, by key.
var versions = []versionRange{
	// Advertised from 0, taken from 3: librdkafka before 2.11 looks for version 0
	// before it compresses (KAFKA-18659). Version 13 would need topic ids.
	{kmsg.Produce, "Produce", 0, 12, 9},
	{kmsg.Fetch, "Fetch", 4, 17, 12},
	{kmsg.ListOffsets, "ListOffsets", 1, 10, 6},
	{kmsg.Metadata, "Metadata", 0, 13, 9},
	{kmsg.FindCoordinator, "FindCoordinator", 0, 6, 3},
	{kmsg.ApiVersions, "ApiVersions", 0, 4, 3},
	{kmsg.CreateTopics, "CreateTopics", 2, 7, 5},
	{kmsg.DeleteTopics, "DeleteTopics", 1, 6, 4},
	{kmsg.InitProducerID, "InitProducerId", 0, 5, 2},
	// librdkafka sends exactly version 2.
	{kmsg.OffsetForLeaderEpoch, "OffsetForLeaderEpoch", 2, 4, 4},
	{kmsg.DescribeConfigs, "DescribeConfigs", 1, 4, 4},
	{kmsg.DescribeCluster, "DescribeCluster", 0, 2, 0},
}

// versionsOf finds the range of an API, or nil.
func versionsOf(key int16) *versionRange {
	for i := range versions {
		if versions[i].key.Int16() == key {
			return &versions[i]
		}
	}
	return nil
}

func (v *versionRange) has(version int16) bool        { return v.min <= version && version <= v.max }
func (v *versionRange) isFlexible(version int16) bool { return version >= v.flexible }

// requestBytesMax is the largest request of the API in bytes. Only records are
// large; in other requests a few bytes decode into a structure many times their
// size, so that they get a bound of their own.
func (v *versionRange) requestBytesMax(cfg Config) int {
	if v.key == kmsg.Produce {
		return cfg.RequestBytesMax
	}
	return min(cfg.RequestBytesMax, smallRequestBytesMax)
}

const smallRequestBytesMax = 4 << 20

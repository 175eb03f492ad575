package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// versionRange is what one API is served and advertised with. The table is the
// contract with clients; UNSUPPORTED.md has the reasons for what is not in it.
type versionRange struct {
	key  kmsg.Key
	name string
	// min and max are advertised. Requests outside get an error or, where the
	// protocol has none, a closed connection.
	min, max int16
	// flexible is the first version with compact types and tags (KIP-482).
	flexible int16
	// bytesMax is the largest request, in bytes; 0 is Config.RequestBytesMax. Only
	// records are large. Elsewhere a few bytes decode into a structure, and are
	// answered by one, of many times their size.
	bytesMax int
}

// versions lists every API served, by key.
var versions = []versionRange{
	// Advertised from 0, taken from 3: librdkafka before 2.11 looks for version 0
	// before it compresses (KAFKA-18659).
	{kmsg.Produce, "Produce", 0, 12, 9, 0},
	{kmsg.Fetch, "Fetch", 4, 17, 12, 2 << 20},
	{kmsg.ListOffsets, "ListOffsets", 1, 10, 6, 2 << 20},
	{kmsg.Metadata, "Metadata", 0, 13, 9, 2 << 20},
	{kmsg.FindCoordinator, "FindCoordinator", 0, 6, 3, 64 << 10},
	{kmsg.ApiVersions, "ApiVersions", 0, 4, 3, 4 << 10},
	{kmsg.CreateTopics, "CreateTopics", 2, 7, 5, 2 << 20},
	{kmsg.DeleteTopics, "DeleteTopics", 1, 6, 4, 2 << 20},
	{kmsg.InitProducerID, "InitProducerId", 0, 5, 2, 4 << 10},
	// librdkafka sends exactly version 2.
	{kmsg.OffsetForLeaderEpoch, "OffsetForLeaderEpoch", 2, 4, 4, 2 << 20},
	{kmsg.DescribeConfigs, "DescribeConfigs", 1, 4, 4, 256 << 10},
	{kmsg.DescribeCluster, "DescribeCluster", 0, 2, 0, 4 << 10},
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

// takes reports whether a request of this many bytes is within the API's bound.
func (v *versionRange) takes(bytes int) bool { return v.bytesMax == 0 || bytes <= v.bytesMax }

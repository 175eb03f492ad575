package scenarios

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ister-mq/ister/scenarios/internal/fakecluster"
	"github.com/ister-mq/ister/scenarios/internal/report"
)

func TestCoreMessagingPassesOnACorrectCluster(t *testing.T) {
	r, log := ran(t, fakecluster.Setup{}, "core-messaging", "--aspect", "partitions", "--aspect", "offsets", "-p", "records=120", "-p", "partitions=1")
	if r.Verdict != report.Pass {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
}

// A broker that gives one batch to readers with a byte changed is found out, and
// the criterion says in which record.
func TestCoreMessagingFindsAChangedByte(t *testing.T) {
	setup := fakecluster.Setup{OnForm: func(kafka *kfake.Cluster) {
		seen := 0
		kafka.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
			kafka.KeepControl()
			produce := request.(*kmsg.ProduceRequest)
			if seen++; seen == 1 {
				records := produce.Topics[0].Partitions[0].Records
				spoil(records)
			}
			return nil, nil, false // and kept as it is now
		})
	}}
	r, log := ran(t, setup, "core-messaging", "--aspect", "partitions", "-p", "records=120", "-p", "partitions=1")
	if r.Verdict != report.Fail {
		t.Fatalf("%s: %+v\n%s", r.Verdict, r.Failures, log)
	}
	for _, c := range r.Criteria {
		if c.ID == "all" && c.Status == report.CheckFail && strings.Contains(c.Detail, "crc") {
			return
		}
	}
	t.Fatalf("no criterion names the record: %+v", r.Criteria)
}

// spoil changes the last byte of a batch's last value, and makes the batch's
// checksum right again, as a broker that mixes memory up would.
func spoil(batch []byte) {
	var parsed kmsg.RecordBatch
	if err := parsed.ReadFrom(batch); err != nil {
		panic(err)
	}
	at := len(batch) - 2 // before the number of headers of the last record
	batch[at] ^= 1
	sum := crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(batch[17:], sum)
}

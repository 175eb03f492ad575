package verdict

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/ister-mq/ister/scenarios/internal/history"
)

func TestSelfTestCatchesEveryAnomalyAndRaisesNoFalseAlarm(t *testing.T) {
	result := SelfTest(LegalHistories)
	for _, row := range result.Rows {
		if !row.Caught {
			t.Errorf("%s: want %s, got %s", row.Anomaly, row.Want, row.Got)
		}
	}
	for i, alarm := range result.FalseAlarms {
		if i < 5 {
			t.Errorf("false alarm: %s", alarm)
		}
	}
	if len(result.FalseAlarms) > 0 {
		t.Errorf("%d of %d legal histories raised an alarm", len(result.FalseAlarms), result.Legal)
	}
	if result.ClientDuplicates == 0 {
		t.Error("no legal history held a client's duplicate: nothing was told apart")
	}
	if !result.Passed() {
		t.Error("self-test did not pass")
	}
}

func TestEveryCheckHasAPlantedAnomaly(t *testing.T) {
	planted := map[Check]bool{}
	for _, a := range anomalies {
		planted[a.want] = true
	}
	for _, c := range Checks {
		if !planted[c] {
			t.Errorf("no anomaly is planted for %s", c)
		}
	}
}

func TestUntouchedSpecimenIsClean(t *testing.T) {
	for _, read := range []string{"middle", legalRead} {
		v, err := Judge(newSpecimen().h, legalLoad, read)
		if err != nil || v.Violations() != 0 {
			t.Fatalf("read %s: %v, findings %v", read, err, v.Findings)
		}
	}
	v, _ := Judge(newSpecimen().h, legalLoad, legalRead)
	if v.Acked != 12 || v.Failed != 1 || v.Unknown != 1 || v.InLog != 12 || v.Extent["t/0"] != "0..11" {
		t.Fatalf("unexpected sums: %+v", v)
	}
}

// Judging the file gives what judging the memory gave.
func TestVerdictOfASavedHistoryIsTheSame(t *testing.T) {
	for seed := range uint64(20) {
		h := Legal(seed)
		var file bytes.Buffer
		if err := history.Write(&file, h); err != nil {
			t.Fatal(err)
		}
		back, err := history.Decode(&file)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := Judge(h, legalLoad, legalRead)
		b, _ := Judge(back, legalLoad, legalRead)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: %+v became %+v", seed, a, b)
		}
	}
}

func TestJudgeRefusesAnUnknownRead(t *testing.T) {
	if _, err := Judge(newSpecimen().h, legalLoad, "nothing"); err == nil {
		t.Fatal("no error")
	}
}

func TestObserveMeasuresAWindow(t *testing.T) {
	h := newSpecimen().h
	w := Observe(h, legalLoad, int64(52*millisecond), int64(63*millisecond), 0)
	if w.InFlight != 2 || w.Acked != 1 || w.Sent != 1 || w.AckedBefore != 5 || w.AckedAfter != 5 {
		t.Fatalf("window %+v", w)
	}
	if w.ProduceGapMS != 5 || w.P50MS != 5 {
		t.Fatalf("gap %v ms, p50 %v ms, want 5 and 5", w.ProduceGapMS, w.P50MS)
	}
	if b := Baseline(h, legalLoad); b.StartNS != 0 || b.EndNS != int64(52*millisecond) || b.Acked != 5 {
		t.Fatalf("baseline %+v", b)
	}
}

package adminapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"

	"github.com/ister-mq/ister/admin/adminv1"
	"github.com/ister-mq/ister/broker/internal/refusal"
)

// TestEveryReasonHasAPublicNameAndACode walks the closed set through the mapping.
func TestEveryReasonHasAPublicNameAndACode(t *testing.T) {
	for _, reason := range refusal.Reasons() {
		if _, ok := adminv1.Reason_Code_value[string(reason)]; !ok {
			t.Errorf("%s is missing in enum Reason.Code of admin/adminv1/refusal.proto", reason)
		}
		err := connectError(fmt.Errorf("create topic: %w", refusal.New(reason, "subject", "message", "advice")), 3)
		var out *connect.Error
		if !errors.As(err, &out) || len(out.Details()) != 1 {
			t.Fatalf("%s: got %v, expected an error with one detail", reason, err)
		}
		value, valueErr := out.Details()[0].Value()
		if valueErr != nil {
			t.Fatal(valueErr)
		}
		detail := value.(*adminv1.Refusal)
		if detail.GetReason() != string(reason) || detail.GetKind() == adminv1.Refusal_KIND_UNSPECIFIED || detail.GetAdvice() != "advice" || detail.GetSubject() != "subject" {
			t.Errorf("%s: detail %v", reason, detail)
		}
		if want := codes[refusal.KindOf(reason)]; want == 0 || out.Code() != want {
			t.Errorf("%s: code %v, expected %v", reason, out.Code(), want)
		}
		if hint := detail.GetController(); (hint == 3) != (refusal.KindOf(reason) == refusal.Redirect) {
			t.Errorf("%s: controller hint %d", reason, hint)
		}
	}
	for name, number := range adminv1.Reason_Code_value {
		if number != 0 && refusal.KindOf(refusal.Reason(name)) == refusal.Internal && name != string(refusal.InternalInconsistency) {
			t.Errorf("enum Reason.Code has %s, which is no reason any more: reserve its number", name)
		}
	}
}

func TestFaultsAndContextsHaveCodes(t *testing.T) {
	for err, want := range map[error]connect.Code{
		errors.New("disk"):                         connect.CodeInternal,
		context.Canceled:                           connect.CodeCanceled,
		context.DeadlineExceeded:                   connect.CodeDeadlineExceeded,
		connect.NewError(connect.CodeAborted, nil): connect.CodeAborted,
	} {
		if got := connect.CodeOf(connectError(err, 0)); got != want {
			t.Errorf("%v: code %v, expected %v", err, got, want)
		}
	}
	if connectError(nil, 0) != nil {
		t.Error("no error became one")
	}
}

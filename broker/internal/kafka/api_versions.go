package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// softwareName is what KIP-511 allows as a client's name and version.
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func apiVersions(_ context.Context, _ *listener, req *kmsg.ApiVersionsRequest, resp *kmsg.ApiVersionsResponse) {
	if req.Version >= 3 && (!softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion)) {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return
	}
	for _, v := range versions {
		resp.ApiKeys = append(resp.ApiKeys, apiKey(v))
	}
}

func apiKey(v versionRange) kmsg.ApiVersionsResponseApiKey {
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MinVersion, k.MaxVersion = v.key.Int16(), v.min, v.max
	return k
}

// refuseApiVersions answers a version of ApiVersions that is not known. The
// answer is in version 0 whatever was asked, and names the range of ApiVersions
// itself, so that the client can ask again (KIP-511).
func (c *connection) refuseApiVersions(ctx context.Context, buf *buffer, h header) error {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = append(resp.ApiKeys, apiKey(*versionsOf(kmsg.ApiVersions.Int16())))
	k, err := c.newCall(ctx, buf, h)
	if err != nil {
		return err
	}
	k.response = resp
	return c.pushAnswered(ctx, k)
}

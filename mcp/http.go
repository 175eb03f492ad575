package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

const (
	// Path is where HTTP clients call.
	Path = "/mcp"
	// tokenMin is the least length of a bearer token.
	tokenMin = 16
	// requestMax bounds one request, in bytes.
	requestMax = 1 << 20
	// shutdownMax bounds the wait for calls under way at the end.
	shutdownMax = 5 * time.Second
)

// HTTPOptions of Serve over HTTP.
type HTTPOptions struct {
	// Token that every request must bear. At least 16 bytes.
	Token string
	// Origins that pages may call from, such as https://app.example.com, besides
	// those of this machine.
	Origins []string
}

func (o HTTPOptions) check() error {
	if len(o.Token) < tokenMin {
		return fmt.Errorf("HTTP needs a bearer token of at least %d bytes, got %d: give --token-file, or set %s", tokenMin, len(o.Token), TokenVariable)
	}
	for _, origin := range o.Origins {
		if u, err := url.Parse(origin); err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" {
			return fmt.Errorf("origin %q: expected scheme://host[:port]", origin)
		}
	}
	return nil
}

// Handler is the tools over streamable HTTP at Path. It holds no sessions, so a
// client may come back after a restart and go on. Both the revisions with a
// handshake and the stateless one are served.
func (s *Server) Handler(o HTTPOptions) (http.Handler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	transport := server.NewStreamableHTTPServer(s.mcp, server.WithStateLess(true), server.WithEndpointPath(Path),
		server.WithHTTPContextFunc(func(ctx context.Context, r *http.Request) context.Context {
			return context.WithValue(ctx, remoteKey{}, r.RemoteAddr)
		}))
	mux := http.NewServeMux()
	mux.Handle(Path, transport)
	want := sha256.Sum256([]byte(o.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin != "" && !slices.Contains(o.Origins, origin) && !isLocal(origin) {
			refuseHTTP(w, http.StatusForbidden, "ORIGIN_REFUSED", "origin "+abridge(origin)+" may not call; allow it with --allow-origin")
			return
		}
		if origin != "" {
			allowPage(w.Header(), origin)
			if r.Method == http.MethodOptions { // a browser asks first, without the token
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="ister mcp"`)
			refuseHTTP(w, http.StatusUnauthorized, "TOKEN_REFUSED", "expected the header Authorization: Bearer TOKEN with the token that this was started with")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestMax))
		var long *http.MaxBytesError
		switch {
		case errors.As(err, &long):
			refuseHTTP(w, http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE", fmt.Sprintf("a request has at most %d bytes", requestMax))
			return
		case err != nil:
			refuseHTTP(w, http.StatusBadRequest, "REQUEST_CUT", "the request was not read to its end: "+err.Error())
			return
		case r.URL.Path == Path && r.Method == http.MethodPost:
			if refusal := s.refusal("http "+r.RemoteAddr, body); refusal != nil {
				w.Header().Set("Content-Type", mimeJSON)
				_, _ = w.Write(refusal) // the client has gone
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		mux.ServeHTTP(w, r)
	}), nil
}

// allowPage lets a browser hand the answer to a page of an origin that may call.
func allowPage(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, Mcp-Protocol-Version, Mcp-Session-Id, Mcp-Method, Mcp-Name, Last-Event-ID")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate")
}

// refuseHTTP says no before the protocol begins.
func refuseHTTP(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", mimeJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"code": code, "message": message}}) // the client has gone
}

// isLocal reports whether an origin is a page of this machine.
func isLocal(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return isLoopback(u.Hostname())
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// serveHTTP serves until ctx ends. Calls under way get a moment to end; runs go
// on.
func (s *Server) serveHTTP(ctx context.Context, listener net.Listener, o HTTPOptions) error {
	handler, err := s.Handler(o)
	if err != nil {
		return err
	}
	h := &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownMax)
	defer cancel()
	if err := h.Shutdown(ending); err != nil {
		_ = h.Close() // it was given its time
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP: %w", err)
	}
	return nil
}

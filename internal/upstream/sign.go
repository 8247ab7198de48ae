// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
)

// Signer signs requests to an upstream that accepts signed bodies only. It is a guest module
// llm_cache.signers.*.
type Signer interface {
	// Ready returns the reason why the signer cannot sign, nil if it can.
	Ready(ctx context.Context) error
	// Sign signs a request with this body: it sets headers, and the host that the signature covers.
	Sign(r *http.Request, body []byte) error
}

// ErrSealed says that the client signed the request and no signer is configured that could sign an
// edited one.
var ErrSealed = errors.New("the client has signed the request, and there is nobody to sign it anew")

// Provision looks whether there is a key, and loads the signer.
func (u *Upstream) Provision(ctx caddy.Context) error {
	if u == nil {
		return nil
	}
	if u.Key != "" && !tenant.Differs(u.Key) && caddy.NewReplacer().ReplaceAll(u.Key, "") == "" {
		return errNoKey
	}
	if u.SignerRaw == nil {
		return nil
	}
	m, err := ctx.LoadModule(u, "SignerRaw")
	if err != nil {
		return fmt.Errorf("loading the signer: %w", option.Missing(err))
	}
	s, ok := m.(Signer)
	if !ok {
		return fmt.Errorf("signer: %T signs nothing", m)
	}
	u.signer = s
	return nil
}

// Sealed returns the reason why a request must be forwarded unmodified: an edit would break its
// signature. Sealed returns nil for all other requests.
func (p *Profile) Sealed(r *http.Request) error {
	// An AWS signature covers the body
	// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") {
		return nil
	}
	if p.Upstream == nil || p.signer == nil {
		return ErrSealed
	}
	if err := p.signer.Ready(r.Context()); err != nil {
		return fmt.Errorf("%w: %w", ErrSealed, err)
	}
	return nil
}

type signing struct {
	p    *Profile
	next caddyhttp.Handler
}

// Sign returns next behind the signing layer, or next itself without a signer.
func (p *Profile) Sign(next caddyhttp.Handler) caddyhttp.Handler {
	if p.Upstream == nil || p.signer == nil {
		return next
	}
	return signing{p, next}
}

// ServeHTTP implements caddyhttp.Handler. A request that cannot be signed is forwarded unsigned,
// and the upstream reports the error.
func (s signing) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	// A bearer token needs no signature (https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys-use.html).
	if bearer(r.Header) || s.p.signer.Ready(r.Context()) != nil {
		return s.next.ServeHTTP(w, r)
	}
	body, err := httpx.ReadAhead(r, s.p.MaxBody, nil)
	if err != nil {
		return s.next.ServeHTTP(w, r) //nolint:nilerr // too long to be signed, or cut
	}
	// Restore the headers afterwards: the access log must not show the operator's credentials.
	header, host := r.Header, r.Host
	defer func() { r.Header, r.Host = header, host }()
	r.Header = maps.Clone(header)
	if err := s.p.signer.Sign(r, body); err != nil {
		s.p.Log.Error("signing a request", zap.Error(err))
	}
	return s.next.ServeHTTP(w, r)
}

func bearer(h http.Header) bool {
	scheme, _, _ := strings.Cut(h.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "bearer")
}

// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package aws signs requests for Amazon Bedrock with the operator's credentials. Import it
// explicitly, because the AWS SDK adds 3.4 MB to a binary:
//
//	xcaddy build --with github.com/caddy-llm-cache/caddy-llm-cache --with github.com/caddy-llm-cache/caddy-llm-cache/extend/aws
package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
)

func init() { caddy.RegisterModule(Signer{}) }

// Signer signs requests for Amazon Bedrock (Signature Version 4) with the credentials of the AWS
// SDK: from the environment, the shared files, a web identity, a container or an instance. Every
// client of the site uses these credentials, so authenticate clients before `llm_cache`.
//
// The signature covers the host below, to which the request's Host is set, and the path as it
// leaves `llm_cache`. A `reverse_proxy` after it must rewrite neither. An upstream `http://…` keeps
// the host; an upstream `https://…` needs `header_up Host bedrock-runtime.<region>.amazonaws.com`.
type Signer struct {
	// Region is the region of Bedrock. Default: the SDK's, by AWS_REGION or the profile.
	Region string `json:"region,omitempty"`
	// Host is the host of the requests. Default: bedrock-runtime.<region>.amazonaws.com.
	Host string `json:"host,omitempty"`

	credentials sdk.CredentialsProvider
	signer      *v4.Signer
	now         func() time.Time
	failures    *failures
}

// CaddyModule returns the Caddy module information.
func (Signer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.signers.aws", New: func() caddy.Module { return new(Signer) }}
}

// Provision sets up the credential providers. Credentials are fetched with the first request.
func (s *Signer) Provision(ctx caddy.Context) error {
	var options []func(*config.LoadOptions) error
	if s.Region != "" {
		options = append(options, config.WithRegion(s.Region))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return fmt.Errorf("loading the configuration of AWS: %w", err)
	}
	if s.Region = c.Region; s.Region == "" {
		return errors.New("region: neither given nor in the environment")
	}
	if s.Host == "" {
		s.Host = "bedrock-runtime." + s.Region + ".amazonaws.com"
		if strings.HasPrefix(s.Region, "cn-") {
			s.Host += ".cn"
		}
	}
	s.credentials, s.signer, s.now, s.failures = c.Credentials, v4.NewSigner(), time.Now, new(failures)
	return nil
}

const (
	// patience is the time that a request waits for credentials, pause the time without further
	// attempts after a failure.
	patience = 5 * time.Second
	pause    = time.Minute
)

type failures struct {
	mu    sync.Mutex
	last  error
	until time.Time
}

// Ready implements [upstream.Signer].
func (s *Signer) Ready(ctx context.Context) error {
	_, err := s.retrieve(ctx)
	return err
}

// retrieve returns the credentials, from memory while they are valid.
func (s *Signer) retrieve(ctx context.Context) (sdk.Credentials, error) {
	f := s.failures
	f.mu.Lock()
	last, waits := f.last, s.now().Before(f.until)
	f.mu.Unlock()
	if waits {
		return sdk.Credentials{}, last
	}
	// On a machine that is no AWS instance, the last credential provider answers late or never.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := s.credentials.Retrieve(ctx)
	if err == nil || errors.Is(ctx.Err(), context.Canceled) { // the client has left
		return c, err //nolint:wrapcheck // the SDK says what it looked for
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.until = fmt.Errorf("credentials of AWS: %w", err), s.now().Add(pause)
	return c, f.last
}

// Sign implements [upstream.Signer].
func (s *Signer) Sign(r *http.Request, body []byte) error {
	c, err := s.retrieve(r.Context())
	if err != nil {
		return err
	}
	h := r.Header
	for _, name := range ours {
		delete(h, name)
	}
	to := http.Request{Method: r.Method, Host: s.Host, Header: http.Header{}}
	to.URL = &url.URL{Scheme: "https", Host: s.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	// Sign no headers that later handlers rewrite, such as lengths and the addresses of clients.
	for name, values := range h {
		if name == "Content-Type" || strings.HasPrefix(name, "X-Amz") {
			to.Header[name] = values
		}
	}
	sum := sha256.Sum256(body)
	if err := s.signer.SignHTTP(r.Context(), c, &to, hex.EncodeToString(sum[:]), "bedrock", s.Region,
		s.now()); err != nil {
		return fmt.Errorf("signing: %w", err)
	}
	for _, name := range ours {
		if v := to.Header[name]; len(v) > 0 {
			h[name] = v
		}
	}
	r.Host = s.Host
	return nil
}

// ours are the headers of a signature.
var ours = [...]string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Content-Sha256"}

// Interface guards
var (
	_ caddy.Provisioner = (*Signer)(nil)
	_ upstream.Signer   = (*Signer)(nil)
)

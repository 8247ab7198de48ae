// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package extend_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/extend"
)

func init() { caddy.RegisterModule(HMAC{}) }

var _ extend.Signer = (*HMAC)(nil)

// HMAC signs bodies by a key that the upstream knows, too.
type HMAC struct {
	Key string `json:"key"`
}

// CaddyModule returns the Caddy module information.
func (HMAC) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.signers.hmac", New: func() caddy.Module { return new(HMAC) }}
}

// Ready implements extend.Signer.
func (h *HMAC) Ready(context.Context) error {
	if h.Key == "" {
		return errors.New("hmac: key is missing")
	}
	return nil
}

// Sign implements extend.Signer.
func (h *HMAC) Sign(r *http.Request, body []byte) error {
	mac := hmac.New(sha256.New, []byte(h.Key))
	mac.Write(body)
	r.Header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
	return nil
}

// A signer is named in JSON, under upstream: {"signer": {"provider": "hmac", "key": "…"}}.
func ExampleSigner() {
	signer := &HMAC{Key: "secret"}
	r := httptest.NewRequest(http.MethodPost, "/v1/messages", nil)
	if err := signer.Sign(r, []byte(`{"model":"m"}`)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(r.Header.Get("X-Signature")), (&HMAC{}).Ready(context.Background()))
	// Output: 64 hmac: key is missing
}

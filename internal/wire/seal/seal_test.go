// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package seal_test

import (
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/seal"
)

func TestSealed(t *testing.T) {
	for _, s := range []seal.Sealed{
		{Format: wire.Anthropic, Text: "so <it> \"is\"\nü", Data: "EqQB/+=="},
		{Format: wire.OpenAIResponses, ID: "rs_1", Data: "gAAA"},
		{Format: wire.Anthropic, Data: "x", Redacted: true},
		{Format: wire.Anthropic, Text: "ooo???>>>~~~"},
	} {
		got, ok := seal.Open(s.Seal())
		if !ok || got != s || !strings.HasPrefix(s.Seal(), wire.SealPrefix) {
			t.Errorf("%+v came back as %+v, %v", s, got, ok)
		}
		if got, ok := seal.Open(strings.NewReplacer("+", "-", "/", "_").Replace(s.Seal())); !ok || got != s {
			t.Errorf("%+v came back as %+v, %v from a client that writes the other alphabet", s, got, ok)
		}
	}
	for _, text := range []string{"", "EqQB", wire.SealPrefix, wire.SealPrefix + "!", "eyJsbG1fY2FjaGUiOiIifQ=="} {
		if s, ok := seal.Open(text); ok {
			t.Errorf("%q opened as %+v", text, s)
		}
	}
}

func TestID(t *testing.T) {
	for _, sig := range []string{
		"", "CgYIAB+/", "Cg==", "not base64!", "skip_thought_signature_validator", "Cg=",
		"\x00\xff", "_sig_AAAA",
	} {
		for _, id := range []string{"call_1", "", "a_sig_b", "x_raw_", "x_9"} {
			sealed := seal.ID(id, sig)
			if gotID, gotSig := seal.OpenID(sealed); gotID != id || gotSig != sig {
				t.Errorf("%q, %q came back as %q, %q", id, sig, gotID, gotSig)
			}
			if strings.Trim(strings.TrimPrefix(sealed, id),
				"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
				t.Errorf("%q holds what ids may not", sealed)
			}
		}
	}
}

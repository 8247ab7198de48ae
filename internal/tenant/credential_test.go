// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCredentialKind(t *testing.T) {
	for _, c := range []struct{ target, header, value, want string }{
		{"/", "Authorization", "Bearer sk-ant-oat01-abc", "plan token"},
		{"/", "X-Api-Key", "sk-ant-oat01-abc", "plan token"},
		{"/", "X-Api-Key", "sk-ant-api03-abc", "API key"},
		{"/", "Authorization", "Bearer sk-proj-abc", "API key"},
		{"/", "Authorization", "Bearer eyJh.eyJz.c2ln", "account token"},
		{"/", "Authorization", "Bearer ya29.abc", "account token"},
		{"/", "X-Goog-Api-Key", "AIza", "API key"},
		{"/?key=AIza", "Accept", "*/*", "API key"},
		{"/", "Authorization", "", "no credential"},
		{"/", "Accept", "*/*", "no credential"},
	} {
		r := httptest.NewRequest(http.MethodPost, c.target, nil)
		r.Header.Set(c.header, c.value)
		if got := CredentialKind(r); got != c.want {
			t.Errorf("%s %s: %s: got %q, want %q", c.target, c.header, c.value, got, c.want)
		}
	}
}

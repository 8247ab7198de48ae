// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
)

// claudeOnBedrock speaks the Messages API in Amazon Bedrock's variant.
type claudeOnBedrock struct{ anthropic }

func (a claudeOnBedrock) events(c *query) [][]byte {
	out := a.anthropic.events(c)
	for i, e := range out {
		_, data, _ := bytes.Cut(e, []byte("data: "))
		out[i] = bedrock.Chunks{}.Append(nil, "", bytes.TrimSpace(data))
	}
	return out
}

func (claudeOnBedrock) streamType() string { return "application/vnd.amazon.eventstream" }

func (claudeOnBedrock) failure(f Failure, _ string) []byte {
	return encode(struct {
		Message string `json:"message"`
	}{f.Message})
}

func (claudeOnBedrock) requestID() string { return "x-amzn-requestid" }

// customer returns the constant part of a credential.
func customer(authorization string) string {
	if strings.HasPrefix(authorization, signatureScheme) {
		// The access key of a signature precedes the date.
		authorization, _, _ = strings.Cut(authorization, "/")
	}
	return authorization
}

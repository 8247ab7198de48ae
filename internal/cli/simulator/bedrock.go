// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"strings"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/bedrock"
)

// claudeOnBedrock speaks the Messages API as Amazon Bedrock does.
type claudeOnBedrock struct{ anthropic }

// events encodes a streamed answer, one element an event.
func (a claudeOnBedrock) events(c *exchange) [][]byte {
	out := a.anthropic.events(c)
	for i, e := range out {
		_, data, _ := bytes.Cut(e, []byte("data: "))
		out[i] = bedrock.Chunks{}.Append(nil, "", bytes.TrimSpace(data))
	}
	return out
}

// streamType is the media type of a stream.
func (claudeOnBedrock) streamType() string { return "application/vnd.amazon.eventstream" }

// failure encodes an error.
func (claudeOnBedrock) failure(f Failure, _ string) []byte {
	return encode(struct {
		Message string `json:"message"`
	}{f.Message})
}

// requestID is the header that names a request.
func (claudeOnBedrock) requestID() string { return "x-amzn-requestid" }

// customer is what stays the same of a credential: a signature says in front of its date
// whose key it was made with.
func customer(authorization string) string {
	if strings.HasPrefix(authorization, signatureScheme) {
		authorization, _, _ = strings.Cut(authorization, "/")
	}
	return authorization
}

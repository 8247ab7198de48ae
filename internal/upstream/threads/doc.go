// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package threads supports conversations that a provider retains on request: message threads of the
// Messages API, stored responses of the Responses API.
//
// A client may send only new messages and the id of the previous answer. A [Book] stores these
// conversations, so that all layers see whole requests. [Driver] sends only new messages upstream,
// whether or not the client did so.
package threads

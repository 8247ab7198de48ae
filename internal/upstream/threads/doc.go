// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package threads is for conversations that a provider keeps when it is asked to: message
// threads of the Messages API, stored responses of the Responses API.
//
// A client may send what is new and name the answer that it goes on from. A [Book]
// keeps what such clients have said, so that their requests are whole to all that reads
// them. [Driver] sends what is new upstream, be it all that the client has sent or not.
package threads

// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package stage

// Mode switches a stage.
type Mode string

// The modes of a stage. The empty Mode is Auto.
const (
	// Auto leaves it to the stage: it acts where the upstream's rules allow it
	// and it has been measured to help.
	Auto Mode = "auto"
	// On asks for the stage wherever the upstream's rules allow it.
	On Mode = "on"
	// Off switches the stage off. It is written "off".
	Off Mode = "off"
)

"""Share one memory among machines: statements about memories, their transport, and the service that stores them."""

"""The exceptions of onnxruntime. They are RuntimeErrors."""


class OrtError(RuntimeError):
    """What all of them have in common."""


class Fail(OrtError):
    pass


class InvalidArgument(OrtError):
    pass


class NoSuchFile(OrtError):
    pass


class NoModel(OrtError):
    pass


class EngineError(OrtError):
    pass


class RuntimeException(OrtError):
    pass


class InvalidProtobuf(OrtError):
    pass


class ModelLoaded(OrtError):
    pass


class NotImplemented(OrtError):
    pass


class InvalidGraph(OrtError):
    pass


class EPFail(OrtError):
    pass

# The Python and libraries of `python -m exercises.canitedit report --environment docker`.
FROM python:3.11-slim
# Where PyTorch without CUDA is, for instance; taken from the variables of the one who builds.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
COPY requirements.txt /tmp/requirements.txt
RUN pip install --no-cache-dir -r /tmp/requirements.txt && rm /tmp/requirements.txt
